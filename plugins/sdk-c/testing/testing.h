/* Declarations that the kit's files share. */
#ifndef OPERETTA_TESTING_PRIVATE_H
#define OPERETTA_TESTING_PRIVATE_H

#include <setjmp.h>

#include "../operetta_testing.h"
#include "../src/internal.h"

/* Recorded lines, in order. */
typedef struct {
    const char **lines;
    size_t count;
    size_t room;
} record;

extern record test_writes, test_events, test_logs;
void record_add(record *record, const char *line);

/* Reports whether the test planned a fault for this call; if so, sets *error. */
bool test_fault(const char *verb, operetta_error **error);
const char *test_config_text(void);

/* The state of a panic: whether a reconcile runs, the point to return to, and the message. */
extern bool test_reconciling;
extern jmp_buf test_return;
extern const char *test_panic;

#endif
