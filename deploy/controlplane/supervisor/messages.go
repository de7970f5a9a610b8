// The supervisor's messages, on standard error and in logs/controlplane.log: a
// caller may have closed standard error.

package supervisor

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// tailLines is the number of lines of a dead component's log in a message.
const tailLines = 15

type messages struct {
	stderr io.Writer
	file   *os.File
}

func newMessages(dir layout, stderr io.Writer) (*messages, error) {
	file, err := os.OpenFile(dir.log("controlplane"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &messages{stderr, file}, nil
}

// say writes a message in a single write, so that messages do not mix.
func (m *messages) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	_, _ = io.WriteString(m.stderr, "controlplane: "+text+"\n")
	_, _ = io.WriteString(m.file, time.Now().Format(time.RFC3339Nano)+" "+text+"\n")
}

func (m *messages) close() { _ = m.file.Close() }

// tail returns the last lines of the file at path, not before offset start, each
// indented; it reads at most the last 64 KiB.
func tail(path string, start int64) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		start = max(start, info.Size()-64<<10)
	}
	text, err := io.ReadAll(io.NewSectionReader(file, start, 64<<10))
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return "  (it logged nothing)"
	}
	lines = lines[max(0, len(lines)-tailLines):]
	return "  " + strings.Join(lines, "\n  ")
}
