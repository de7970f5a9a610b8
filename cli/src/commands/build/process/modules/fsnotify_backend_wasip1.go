package fsnotify

// Added by `operetta build` to fsnotify 1.8 and later.

var defaultBufferSize = 0

func newBackend(events chan Event, errors chan error) (backend, error) {
	return newPoller(events, errors), nil
}

func newBufferedBackend(_ uint, events chan Event, errors chan error) (backend, error) {
	return newPoller(events, errors), nil
}
