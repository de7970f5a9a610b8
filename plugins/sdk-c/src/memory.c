/*
 * The arena of one reconcile: chunks that are freed together when the next reconcile begins. Allocation never returns
 * NULL: a plugin that is out of memory panics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ALIGNMENT = 16, CHUNK_BYTES = 64 * 1024 };

typedef struct chunk {
    struct chunk *before;
    size_t size;
    size_t used;
} chunk;

static chunk *newest;

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

void memory_reset(void) {
    while (newest != NULL) {
        chunk *before = newest->before;
        free(newest);
        newest = before;
    }
}

static void *memory_take(size_t bytes) {
    size_t wanted = aligned(bytes == 0 ? 1 : bytes);
    size_t header = aligned(sizeof(chunk));
    if (wanted < bytes) {
        operetta_panic("out of memory: %zu bytes", bytes);
    }
    if (newest == NULL || newest->size - newest->used < wanted) {
        size_t size = wanted > CHUNK_BYTES ? wanted : CHUNK_BYTES;
        chunk *made = size + header < size ? NULL : malloc(header + size);
        if (made == NULL) {
            operetta_panic("out of memory: %zu bytes", bytes);
        }
        *made = (chunk){.before = newest, .size = size};
        newest = made;
    }
    void *memory = (char *)newest + header + newest->used;
    newest->used += wanted;
    return memory;
}

void *memory_reallocate(void *old, size_t old_bytes, size_t bytes) {
    if (old != NULL && bytes <= old_bytes) {
        return old;
    }
    /* The newest allocation of a chunk grows in place, because a JSON writer's buffer grows repeatedly. */
    size_t taken = aligned(old_bytes == 0 ? 1 : old_bytes);
    if (old != NULL && newest != NULL && newest->used >= taken) {
        size_t offset = newest->used - taken;
        bool last = (char *)newest + aligned(sizeof(chunk)) + offset == (char *)old;
        if (last && aligned(bytes) >= bytes && newest->size - offset >= aligned(bytes)) {
            newest->used = offset + aligned(bytes);
            return old;
        }
    }
    void *memory = memory_take(bytes);
    if (old != NULL) {
        memcpy(memory, old, old_bytes);
    }
    return memory;
}

void *operetta_allocate(size_t bytes) {
    void *memory = memory_take(bytes);
    memset(memory, 0, bytes);
    return memory;
}

char *memory_text(const char *text, size_t length) {
    char *copy = memory_take(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

const char *format_text(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    char small[256];
    int length = vsnprintf(small, sizeof small, format, arguments);
    if (length < 0) {
        va_end(again);
        return format;
    }
    if ((size_t)length < sizeof small) {
        va_end(again);
        return memory_text(small, (size_t)length);
    }
    char *text = memory_take((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

const char *operetta_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(format, arguments);
    va_end(arguments);
    return text;
}
