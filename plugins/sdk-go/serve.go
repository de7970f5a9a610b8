// How a program becomes a plugin.

package operetta

// served is what the exports call; nil when nobody called Serve.
var served func() Handler

// Serve says what the plugin is. Call it once, from func init of package main: the host calls a plugin's functions, never
// main.
//
// The function runs anew for each reconcile: let it only say what the plugin is. Natively, as in `go test`, Serve does
// nothing more.
func Serve(plugin func() *Plugin) { ServeHandler(func() Handler { return plugin() }) }

// ServeHandler is [Serve] for a handler of one's own.
func ServeHandler(handler func() Handler) {
	if served != nil {
		panic("operetta: Serve was called twice; call it once, and give NewPlugin every controller")
	}
	served = handler
	logToHost()
}
