/* The program for a Cortex-M: starts the machine, runs the self-test, and reports to a debugger (semihosting). */
#include "golden.h"

extern char lwt_stack_top[], lwt_bss_start[], lwt_bss_end[];

__attribute__((section(".bss.arena"))) lwt_arena lwt_firmware_arena;

static int semihost(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void lwt_reset(void)
{
#ifdef __ARM_FP
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: the floating-point unit may be used */
    __asm__ volatile("dsb\n isb");
#endif
    for (volatile char *p = lwt_bss_start; p < lwt_bss_end; p++)
        *p = 0;
    lwt_findings found;
    int failures = lwt_self_test(&lwt_firmware_arena, &found);
    char bits[] = "00000000\n";
    for (int i = 0; i < 8; i++)
        bits[i] = "0123456789abcdef"[found.bits >> (28 - 4 * i) & 15];
    semihost(0x04, failures ? "self-test: failed, bits " : "self-test: passed, bits "); /* SYS_WRITE0 */
    semihost(0x04, bits);
    const uint32_t end[2] = {0x20026, failures != 0}; /* ADP_Stopped_ApplicationExit */
    semihost(0x20, end);                              /* SYS_EXIT_EXTENDED */
    for (;;)
        ;
}

static void fault(void)
{
    const uint32_t end[2] = {0x20026, 3};
    semihost(0x04, "fault: an access outside of the memory\n");
    semihost(0x20, end);
    for (;;)
        ;
}

typedef void (*handler)(void);

__attribute__((section(".vectors"), used)) static const struct {
    char *stack;
    handler handlers[15];
} vectors = {lwt_stack_top, {lwt_reset, fault, fault, fault, fault, fault}};
