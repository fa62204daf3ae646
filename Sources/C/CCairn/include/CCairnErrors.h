#ifndef CCAIRN_ERRORS_H
#define CCAIRN_ERRORS_H

/* Sets the last error of the calling thread. The library alone calls it. */
void cairn_set_error(const char *message, const char *hint, int sqlite_code);

#endif
