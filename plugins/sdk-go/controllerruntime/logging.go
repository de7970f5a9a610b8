package controllerruntime

import (
	"fmt"

	"github.com/go-logr/logr"

	"operetta.dev/sdk-go"
)

// logSink is a logr.LogSink that writes to the plugin's log: V(0) is info, V(1) is debug, V(2) and above are trace. The
// logger's name becomes the field `logger`, an error the field `error`.
type logSink struct {
	api    func() operetta.API
	name   string
	fields []operetta.LogField
}

func newLogger(api operetta.API) logr.Logger {
	return logr.New(logSink{api: func() operetta.API { return api }})
}

// newLoggerOf returns a logger that outlives a reconcile.
func newLoggerOf(api *held) logr.Logger { return logr.New(logSink{api: api.get}) }

func (s logSink) Init(logr.RuntimeInfo) {}

func (s logSink) Enabled(level int) bool { return s.api().LogEnabled(levelOf(level)) }

func (s logSink) Info(level int, message string, pairs ...any) {
	s.api().Log(levelOf(level), message, s.with(pairs))
}

func (s logSink) Error(err error, message string, pairs ...any) {
	if err != nil {
		pairs = append([]any{"error", err}, pairs...)
	}
	s.api().Log(operetta.LevelError, message, s.with(pairs))
}

func (s logSink) WithValues(pairs ...any) logr.LogSink {
	s.fields = appended(s.fields, pairs)
	return s
}

func (s logSink) WithName(name string) logr.LogSink {
	if s.name != "" {
		name = s.name + "." + name
	}
	s.name = name
	return s
}

func (s logSink) with(pairs []any) []operetta.LogField {
	fields := appended(s.fields, pairs)
	if s.name != "" {
		fields = append(fields, operetta.LogField{Name: "logger", Value: s.name})
	}
	return fields
}

func appended(fields []operetta.LogField, pairs []any) []operetta.LogField {
	fields = append([]operetta.LogField{}, fields...)
	for i := 0; i < len(pairs); i += 2 {
		value := any("(no value)")
		if i+1 < len(pairs) {
			value = pairs[i+1]
		}
		if marshaler, ok := value.(logr.Marshaler); ok {
			value = marshaler.MarshalLog()
		}
		fields = append(fields, operetta.LogField{Name: fmt.Sprint(pairs[i]), Value: fmt.Sprintf("%+v", value)})
	}
	return fields
}

func levelOf(level int) operetta.LogLevel {
	switch {
	case level <= 0:
		return operetta.LevelInfo
	case level == 1:
		return operetta.LevelDebug
	}
	return operetta.LevelTrace
}
