/* The test server of this process: finds or starts it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

enum { MOST_ADDRESS_BYTES = 256, MOST_START_MILLISECONDS = 60000, EXIT_NO_PROGRAM = 127 };

/* Makes a pipe whose ends later programs do not inherit. */
static void open_pipe(int ends[2]) {
    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) != 0) {
        test_end("the test server cannot be started: no pipe: %s", strerror(errno));
    }
}

/* Reads a line without its end. Returns false if the output ends before, or the time is up. */
static bool read_line(int output, char *line, size_t room) {
    for (size_t length = 0; length + 1 < room; length++) {
        struct pollfd waiting = {.fd = output, .events = POLLIN};
        if (poll(&waiting, 1, MOST_START_MILLISECONDS) != 1 || read(output, &line[length], 1) != 1) {
            return false;
        }
        if (line[length] == '\n') {
            line[length] = '\0';
            return true;
        }
    }
    return false;
}

/* Ends the test, because the server printed no address. */
OPERETTA_NORETURN static void not_started(const char *program, pid_t child) {
    int state = 0;
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    if (WIFEXITED(state) && WEXITSTATUS(state) == EXIT_NO_PROGRAM) {
        test_end("the test server cannot be started: there is no program %s; run the tests with `operetta test`, or put "
                 "`operetta` on PATH (or set OPERETTA to the program)", program);
    }
    if (WIFEXITED(state)) {
        test_end("`%s test --serve` ended with exit code %d", program, WEXITSTATUS(state));
    }
    test_end("`%s test --serve` printed no address", program);
}

/* Starts `operetta test --serve` and reads the address that it prints. The server ends when its standard input closes,
 * which the end of this process does. */
static void start(const char *program, char *address, size_t room) {
    int input[2];
    int output[2];
    open_pipe(input);
    open_pipe(output);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        test_end("the test server cannot be started: %s", strerror(errno));
    }
    if (child == 0) {
        char *arguments[] = {(char *)(uintptr_t)program, "test", "--serve", NULL};
        dup2(input[0], STDIN_FILENO);
        dup2(output[1], STDOUT_FILENO);
        execvp(program, arguments);
        _exit(EXIT_NO_PROGRAM);
    }
    close(input[0]);
    close(output[1]);
    bool started = read_line(output[0], address, room);
    close(output[0]);
    if (!started) {
        *address = '\0';
        close(input[1]);
        not_started(program, child);
    }
}

const char *server_address(void) {
    static char address[MOST_ADDRESS_BYTES];
    const char *given = getenv("OPERETTA_TEST_ADDRESS");
    if (given != NULL && *given != '\0') {
        return given;
    }
    if (*address == '\0') {
        const char *program = getenv("OPERETTA");
        start(program == NULL || *program == '\0' ? "operetta" : program, address, sizeof address);
    }
    return address;
}
