#define _GNU_SOURCE
#include <fcntl.h>

#include "CShims.h"

void cairn_begin_writing(int descriptor, uint64_t offset, uint64_t count) {
  // A hint only: whatever is wrong, the next sync says.
  (void)sync_file_range(descriptor, (off64_t)offset, (off64_t)count, SYNC_FILE_RANGE_WRITE);
}
