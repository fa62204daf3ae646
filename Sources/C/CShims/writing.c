#define _GNU_SOURCE
#include <fcntl.h>

#include "CShims.h"

void cairn_begin_writing(int descriptor, uint64_t offset, uint64_t count) {
  // This is only a hint: the next sync reports any error.
  (void)sync_file_range(descriptor, (off64_t)offset, (off64_t)count, SYNC_FILE_RANGE_WRITE);
}
