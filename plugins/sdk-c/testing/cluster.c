/*
 * The cluster of a test: a connection to the test server, which serves one cluster until it closes. Each side writes one
 * JSON document per line: a request, then its response.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "testing.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { MOST_CALL_SECONDS = 60, FIRST_LINE_BYTES = 4096 };

static int connection = -1;
static const char *manifest;          /* what to declare; NULL: nothing */
static const char *declared_manifest; /* what the server knows; NULL: nothing */

bool cluster_is_open(void) { return connection >= 0; }

void cluster_close(void) {
    if (connection >= 0) {
        close(connection);
    }
    connection = -1;
    manifest = declared_manifest = NULL;
}

void cluster_declare(const char *text) { manifest = text; }

operetta_value *cluster_request(const char *call) {
    operetta_value *request = operetta_new_object();
    operetta_set_string(request, "call", call);
    return request;
}

operetta_value *cluster_request_for_kind(const char *call, operetta_kind kind) {
    operetta_value *request = cluster_request(call);
    operetta_set_string(request, "kind.apiVersion", kind.api_version);
    operetta_set_string(request, "kind.kind", kind.kind);
    return request;
}

operetta_value *cluster_request_for_key(const char *call, operetta_kind kind, const char *namespace_,
                                        const char *name) {
    operetta_value *request = cluster_request_for_kind(call, kind);
    if (namespace_ != NULL && *namespace_ != '\0') {
        operetta_set_string(request, "key.namespace", namespace_);
    }
    operetta_set_string(request, "key.name", name);
    return request;
}

/* Ends the test, because the connection is useless. */
OPERETTA_NORETURN static void broken(const char *what, int number) {
    cluster_close();
    test_end("%s: %s", what, number == 0 ? "it closed the connection" : strerror(number));
}

static void send_line(const char *text) {
    const char *line = operetta_format("%s\n", text);
    for (size_t left = strlen(line); left > 0;) {
        ssize_t sent = send(connection, line, left, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            broken("sending to the test server", errno);
        }
        if (sent > 0) {
            line += sent;
            left -= (size_t)sent;
        }
    }
}

static const char *receive_line(void) {
    size_t room = FIRST_LINE_BYTES;
    size_t length = 0;
    char *line = operetta_allocate(room);
    for (;;) {
        if (length + 1 == room) {
            line = memory_reallocate(line, room, room * 2);
            room *= 2;
        }
        ssize_t received = recv(connection, line + length, room - length - 1, 0);
        if (received == 0 || (received < 0 && errno != EINTR)) {
            broken("receiving from the test server", received == 0 ? 0 : errno);
        }
        length += received > 0 ? (size_t)received : 0;
        /* The server sends nothing but the response, so its end is the end of what has arrived. */
        if (length > 0 && line[length - 1] == '\n') {
            line[length - 1] = '\0';
            return line;
        }
    }
}

/* Converts the `error` of a response. */
static operetta_error *error_of(const operetta_value *response) {
    const operetta_value *status = operetta_at(response, "error.status");
    const operetta_value *given = operetta_at(status, "causes");
    const char *type = operetta_string(response, "error.type", "");
    operetta_error *error = operetta_allocate(sizeof *error);
    operetta_cause *causes = operetta_allocate(operetta_count(given, "") * sizeof *causes);
    while (error->variant < OPERETTA_OTHER && strcmp(operetta_error_variant_name(error->variant), type) != 0) {
        error->variant++;
    }
    error->code = (uint16_t)operetta_int(status, "code", 0);
    error->reason = operetta_string(status, "reason", "");
    error->message = operetta_string(status, "message", "");
    error->cause_count = operetta_count(given, "");
    error->causes = causes;
    for (size_t i = 0; i < error->cause_count; i++) {
        const operetta_value *cause = operetta_element(given, i);
        causes[i] = (operetta_cause){operetta_string(cause, "reason", ""), operetta_string(cause, "message", ""),
                                     operetta_string(cause, "field", "")};
    }
    error->has_retry_after = operetta_type_at(status, "retryAfterSeconds") == OPERETTA_NUMBER;
    error->retry_after_seconds = (uint32_t)operetta_int(status, "retryAfterSeconds", 0);
    error->call = "";
    return error;
}

static operetta_value *exchange(const operetta_value *request, operetta_error **error) {
    send_line(operetta_to_json(request));
    operetta_value *response = value_of_host(receive_line(), "the test server");
    const char *failure = operetta_string(response, "failure", NULL);
    if (failure != NULL) {
        test_end("test server: %s", failure);
    }
    const operetta_value *warnings = operetta_at(response, "warnings");
    for (size_t i = 0; i < operetta_count(warnings, ""); i++) {
        record_add(&test_warnings, operetta_string(operetta_element(warnings, i), "", ""));
    }
    if (operetta_at(response, "error") != NULL) {
        *error = error_of(response);
        return NULL;
    }
    return operetta_at(response, "ok");
}

/* Reads a TOKEN@HOST:PORT; returns its token. */
static const char *parse_address(const char *text, struct sockaddr_in *address) {
    const char *at = strchr(text, '@');
    const char *colon = at == NULL ? NULL : strrchr(at, ':');
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    if (colon == NULL || inet_pton(AF_INET, memory_text(at + 1, (size_t)(colon - at - 1)), &address->sin_addr) != 1) {
        test_end("the address of the test server is \"%s\": TOKEN@HOST:PORT is needed", text);
    }
    address->sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    return memory_text(text, (size_t)(at - text));
}

static void open_cluster(void) {
    struct sockaddr_in address;
    const char *token = parse_address(server_address(), &address);
    struct timeval longest = {.tv_sec = MOST_CALL_SECONDS};
    connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        broken("connecting to the test server", errno);
    }
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
#ifdef SO_NOSIGPIPE
    setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    operetta_value *request = cluster_request("open");
    operetta_error *error = NULL;
    operetta_set_string(request, "token", token);
    exchange(request, &error);
    if (error != NULL) {
        test_end("the test server makes no cluster: %s", error->message);
    }
}

/* Declares the plugin's manifest, unless the server knows it. */
static void declare_manifest(void) {
    if (manifest == NULL || (declared_manifest != NULL && strcmp(manifest, declared_manifest) == 0)) {
        return;
    }
    operetta_value *request = cluster_request("manifest");
    operetta_error *error = NULL;
    operetta_set_string(request, "manifest", manifest);
    exchange(request, &error);
    if (error != NULL) {
        test_end("the host rejects the plugin's manifest: %s", error->message);
    }
    declared_manifest = manifest;
}

operetta_value *cluster_call(const operetta_value *request, operetta_error **error) {
    if (connection < 0) {
        open_cluster();
    }
    declare_manifest();
    return exchange(request, error);
}
