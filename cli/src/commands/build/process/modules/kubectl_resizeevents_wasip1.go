package term

// Added by `operetta build`: the streams of a process are no terminals, so their size never changes.

func monitorResizeEvents(fd uintptr, resizeEvents chan<- TerminalSize, stop chan struct{}) {}
