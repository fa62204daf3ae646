#ifndef CCAIRN_ERRORS_H
#define CCAIRN_ERRORS_H

/* The last error of the calling thread. Not for programs. */
void cairn_set_error(const char *message, const char *hint, int sqlite_code);

#endif
