#include "cairn.h"
#include "CCairnErrors.h"

#include <string.h>

/* Each thread has these in its own memory, so that nothing needs to be freed when the thread ends. */
static _Thread_local char last_message[2048];
static _Thread_local char last_hint[2048];
static _Thread_local int last_sqlite_code;

/* Stores a text. A text that is too long is cut between two characters. */
static void keep(char *place, size_t size, const char *text) {
  size_t length = strlen(text);
  if (length >= size) {
    length = size - 1;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
  }
  memcpy(place, text, length);
  place[length] = 0;
}

void cairn_set_error(const char *message, const char *hint, int sqlite_code) {
  keep(last_message, sizeof last_message, message);
  keep(last_hint, sizeof last_hint, hint);
  last_sqlite_code = sqlite_code;
}

const char *cairn_error_message(void) { return last_message; }
const char *cairn_error_hint(void) { return last_hint; }
int cairn_error_sqlite_code(void) { return last_sqlite_code; }
