// A log/slog handler that writes to the plugin's log.

package operetta

import (
	"context"
	"log/slog"
	"slices"
)

// NewLogHandler returns a slog handler that writes to an API's log. [Serve] makes it the default handler in a plugin.
// slog's levels map to the host's; below Debug is trace. Attributes become fields, groups prefix their names with
// `group.`.
func NewLogHandler(api API) slog.Handler { return &logHandler{api: api} }

type logHandler struct {
	api    API
	prefix string
	fields []LogField
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.api.LogEnabled(logLevel(level))
}

func (h *logHandler) Handle(_ context.Context, record slog.Record) error {
	fields := slices.Clone(h.fields)
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendAttr(fields, h.prefix, attr)
		return true
	})
	h.api.Log(logLevel(record.Level), record.Message, fields)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := slices.Clone(h.fields)
	for _, attr := range attrs {
		fields = appendAttr(fields, h.prefix, attr)
	}
	return &logHandler{api: h.api, prefix: h.prefix, fields: fields}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{api: h.api, prefix: h.prefix + name + ".", fields: h.fields}
}

func appendAttr(fields []LogField, prefix string, attr slog.Attr) []LogField {
	value := attr.Value.Resolve()
	if attr.Equal(slog.Attr{}) {
		return fields
	}
	if value.Kind() != slog.KindGroup {
		return append(fields, LogField{Name: prefix + attr.Key, Value: value.String()})
	}
	if attr.Key != "" {
		prefix += attr.Key + "."
	}
	for _, member := range value.Group() {
		fields = appendAttr(fields, prefix, member)
	}
	return fields
}

func logLevel(level slog.Level) LogLevel {
	switch {
	case level >= slog.LevelError:
		return LevelError
	case level >= slog.LevelWarn:
		return LevelWarn
	case level >= slog.LevelInfo:
		return LevelInfo
	case level >= slog.LevelDebug:
		return LevelDebug
	}
	return LevelTrace
}
