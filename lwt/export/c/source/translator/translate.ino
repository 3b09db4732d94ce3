// Translates the lines that come over the serial port.
#include <lwt.h>

static lwt_arena arena;

void setup() {
  Serial.begin(115200);
}

void loop() {
  static char line[256], answer[512];
  size_t length = Serial.readBytesUntil('\n', line, sizeof line - 1);
  if (!length) {
    return;
  }
  line[length] = 0;
  lwt_translate(&arena, line, answer, sizeof answer, NULL);
  Serial.println(answer);
}
