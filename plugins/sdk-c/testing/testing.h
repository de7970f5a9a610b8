/* Declarations that the kit's files share. */
#ifndef OPERETTA_TESTING_PRIVATE_H
#define OPERETTA_TESTING_PRIVATE_H

#include <setjmp.h>

#include "../operetta_testing.h"
#include "../src/internal.h"

/* ---- The program's test server (server.c) ---- */

/* Returns the address of the test server, as TOKEN@HOST:PORT: that of `operetta test`, or else of a server that this
 * process starts at the first call. Ends the test if there is none. */
const char *server_address(void);

/* ---- The cluster of a test (cluster.c) ---- */

/* Return a request without arguments, for a kind, or for an object. */
operetta_value *cluster_request(const char *call);
operetta_value *cluster_request_for_kind(const char *call, operetta_kind kind);
operetta_value *cluster_request_for_key(const char *call, operetta_kind kind, const char *namespace_,
                                        const char *name);

/* Sends a request and returns the result. Returns NULL and sets *error if the API server rejects it. Any other failure
 * ends the test. Connects before the first request. */
operetta_value *cluster_call(const operetta_value *request, operetta_error **error);

/* Sets the manifest to declare before the next request. */
void cluster_declare(const char *manifest);

/* Reports whether the test has sent a request. */
bool cluster_is_open(void);

/* Ends the cluster. */
void cluster_close(void);

/* ---- The kit (kit.c) ---- */

/* Recorded lines, in order. */
typedef struct {
    const char **lines;
    size_t count;
    size_t room;
} record;

extern record test_writes, test_events, test_logs;
extern record test_warnings; /* the API server's, since the plugin last took them */
void record_add(record *record, const char *line);

/* Reports whether the test planned a fault for this call; if so, sets *error. */
bool test_fault(const char *verb, operetta_error **error);
const char *test_config_text(void);

/* Ends the test as failed, and prints the message. Without the runner it ends the program. */
OPERETTA_NORETURN void test_end(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* The state of a panic: whether a reconcile runs, the point to return to, and the message. */
extern bool test_reconciling;
extern jmp_buf test_return;
extern const char *test_panic;

#endif
