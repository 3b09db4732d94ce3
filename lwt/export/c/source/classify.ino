// Classifies the lines that come over the serial port.
#include <lwt.h>

static lwt_arena arena;
@TASK@static lwt_answer answer;

void setup() {
  Serial.begin(115200);
@CHOICE@}

void loop() {
  static char line[256];
  size_t length = Serial.readBytesUntil('\n', line, sizeof line - 1);
  if (!length) {
    return;
  }
  line[length] = 0;
@CUT@  lwt_classify(&arena, @ARGUMENT@line, @SECOND@, &answer);
  Serial.println(@ANSWER@);
}
