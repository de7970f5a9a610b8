// Registration of the plugin.

package operetta

// served makes the handler of the exports; nil if Serve was not called.
var served func() Handler

// Serve registers the plugin. Call it once, from func init of package main: the host calls a plugin's functions, never
// main.
//
// The function is called for each reconcile, so it should only construct the plugin. Natively, as in `go test`, Serve
// only registers it.
func Serve(plugin func() *Plugin) { ServeHandler(func() Handler { return plugin() }) }

// ServeHandler registers a custom handler, as [Serve] registers a plugin.
func ServeHandler(handler func() Handler) {
	if served != nil {
		panic("operetta: Serve was called twice; call it once, and give NewPlugin every controller")
	}
	served = handler
	logToHost()
}
