// A program for the tests of the room in which operators run as processes. It knows nothing of the
// host: it also runs natively, where each command does the same.
//
//	process-go COMMAND [ARGUMENT...]
//
// Each command prints what it finds to stdout, a line for each fact, and exits with 0. A command
// that meets what it did not expect prints that and exits with 1.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A command takes its arguments and returns what it did not expect.
type command struct {
	arguments string
	run       func(arguments []string) error
}

var commands = map[string]command{
	"dial":         {"ADDRESS", dial},
	"dial-error":   {"ADDRESS", dialError},
	"dial-timeout": {"ADDRESS MILLISECONDS", dialTimeout},
	"dial-cancel":  {"ADDRESS MILLISECONDS", dialCancel},
	"deadlines":    {"ADDRESS MILLISECONDS", deadlines},
	"close":        {"ADDRESS", closeWakesReader},
	"half-close":   {"ADDRESS", halfClose},
	"many-dials":   {"ADDRESS COUNT", manyDials},
	"bulk":         {"ADDRESS BYTES", bulk},
	"options":      {"ADDRESS", options},
	"control":      {"ADDRESS", control},
	"get":          {"URL", get},
	"listen":       {"ADDRESS", listen},
	"listen-twice": {"ADDRESS", listenTwice},
	"own-listener": {"ADDRESS", ownListener},
	"serve":        {"ADDRESS", serve},
	"unix":         {"FOLDER", unixSocket},
	"udp":          {"ADDRESS", udp},
	"lookup":       {"NAME", lookup},
	"records":      {"NAME", records},

	"signals":        {"", signals},
	"signal-default": {"", signalDefault},
	"timers":         {"", timers},
	"goroutines":     {"COUNT", goroutines},
	"fair":           {"ADDRESS", fair},
	"sleep":          {"MILLISECONDS", sleep},
	"spin":           {"", spin},
	"spin-calls":     {"", spinCalls},
	"allocate":       {"MEGABYTES", allocate},
	"deadlock":       {"", deadlock},
	"exit":           {"CODE", exit},
	"panic":          {"", panics},
	"nil":            {"", nilPointer},

	"arguments":   {"...", arguments},
	"environment": {"NAME...", environment},
	"hostname":    {"", hostname},
	"read":        {"FILE", read},
	"files":       {"FOLDER", files},
	"output":      {"BYTES", output},
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	command, ok := commands[os.Args[1]]
	if !ok {
		usage()
	}

	given, wanted := os.Args[2:], strings.Fields(command.arguments)
	if !strings.HasSuffix(command.arguments, "...") && len(given) != len(wanted) {
		usage()
	}

	if err := command.run(given); err != nil {
		fmt.Println("unexpected:", err)
		os.Exit(1)
	}
}

func usage() {
	var lines []string
	for name, command := range commands {
		lines = append(lines, strings.TrimSpace("process-go "+name+" "+command.arguments))
	}
	slices.Sort(lines)
	fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	os.Exit(2)
}

// milliseconds reads an argument.
func milliseconds(argument string) (time.Duration, error) {
	n, err := strconv.Atoi(argument)
	return time.Duration(n) * time.Millisecond, err
}

// about reports whether a wait took what was asked for, and not much more on a busy machine.
func about(took, asked time.Duration) error {
	if took < asked || took > asked+2*time.Second {
		return fmt.Errorf("%v passed instead of %v", took, asked)
	}
	return nil
}
