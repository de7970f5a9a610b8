/* What the kit's files share. */
#ifndef OPERETTA_TESTING_PRIVATE_H
#define OPERETTA_TESTING_PRIVATE_H

#include <setjmp.h>

#include "../operetta_testing.h"
#include "../src/internal.h"

/* Lines in the order they came; their text is the test's memory. */
typedef struct {
    const char **lines;
    size_t count;
    size_t room;
} record;

extern record test_writes, test_events, test_logs;
void record_add(record *record, const char *line);

/* Whether the test planned a fault for this call; if so, *error is it. */
bool test_fault(const char *verb, operetta_error **error);
const char *test_config_text(void);

/* Where a panic goes while a reconcile runs, and what it said. */
extern bool test_reconciling;
extern jmp_buf test_return;
extern const char *test_panic;

#endif
