#include <sys/eventfd.h>

#include "CShims.h"

int cairn_wake_descriptor(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
