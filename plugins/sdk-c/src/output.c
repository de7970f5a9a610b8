/*
 * Writes stdout and stderr to the plugin's log, line by line: stdout at level info, stderr at level warn. The functions
 * below replace WASI imports of wasi-libc, so that the component does not import them. Other WASI calls (time, random
 * numbers) stay imports that the host implements.
 */
#include <string.h>

#include "internal.h"

enum { STDOUT = 1, STDERR = 2, ERRNO_BADF = 8, ERRNO_SPIPE = 70, CHARACTER_DEVICE = 2, LONGEST_LINE = 2048 };

typedef struct {
    const char *data;
    size_t size;
} slice;

static char lines[2][LONGEST_LINE + 1];
static size_t lengths[2];

static void flush_line(int stream) {
    if (lengths[stream] > 0) {
        lines[stream][lengths[stream]] = '\0';
        lengths[stream] = 0;
        backend_log(stream == 0 ? OPERETTA_INFO : OPERETTA_WARN, lines[stream], NULL, 0);
    }
}

/* Writes lines that have no line break yet. */
void output_flush(void) {
    flush_line(0);
    flush_line(1);
}

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t file, int32_t slices, int32_t count, int32_t written) {
    const slice *parts = (const slice *)(uintptr_t)slices;
    size_t total = 0;
    if (file != STDOUT && file != STDERR) {
        return ERRNO_BADF;
    }
    int stream = file - STDOUT;
    for (int32_t i = 0; i < count; i++) {
        for (size_t at = 0; at < parts[i].size; at++) {
            if (parts[i].data[at] == '\n' || lengths[stream] == LONGEST_LINE) {
                flush_line(stream);
            }
            if (parts[i].data[at] != '\n') {
                lines[stream][lengths[stream]++] = parts[i].data[at];
            }
        }
        total += parts[i].size;
    }
    *(size_t *)(uintptr_t)written = total;
    return 0;
}

/* Reports a terminal, so that libc flushes at each line break. */
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t file, int32_t stat) {
    memset((void *)(uintptr_t)stat, 0, 24);
    *(uint8_t *)(uintptr_t)stat = CHARACTER_DEVICE;
    return file >= 0 && file <= STDERR ? 0 : ERRNO_BADF;
}

int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t file, int64_t offset, int32_t whence, int32_t position) {
    (void)file, (void)offset, (void)whence, (void)position;
    return ERRNO_SPIPE;
}

int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t file) {
    (void)file;
    return 0;
}

/* Zig's libc has its own `close`, which does not call wasi-libc's. */
int close(int file);
int close(int file) { return __imported_wasi_snapshot_preview1_fd_close(file); }

void __imported_wasi_snapshot_preview1_proc_exit(int32_t code) {
    operetta_panic_at(NULL, 0, NULL, "exit(%d) was called", (int)code);
}
