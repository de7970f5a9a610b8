package logrus

// Added by `operetta build`: the streams of a process are no terminals.

func isTerminal(fd int) bool {
	return false
}
