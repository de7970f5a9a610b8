package controllerruntime

import (
	"context"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"operetta.dev/sdk-go"
)

// miscellaneous is the code of a warning about a request, and the only one that Kubernetes sends.
const miscellaneous = 299

// warningHandler returns the handler of the API server's warnings: the author's, or else controller-runtime's default.
func warningHandler(options Options) rest.WarningHandlerWithContext {
	if options.WarningHandler != nil {
		return options.WarningHandler
	}
	return ctrllog.NewKubeAPIWarningLogger(ctrllog.KubeAPIWarningLoggerOptions{Deduplicate: false})
}

// warned passes the warnings about the last call to the handler.
func (c *kubeClient) warned(ctx context.Context) {
	for _, text := range c.api.get().TakeWarnings() {
		c.warnings.HandleWarningHeaderWithContext(ctx, miscellaneous, "-", text)
	}
}

// addWarnings adds the warnings about a raw request to its response, where client-go looks for them.
func addWarnings(header http.Header, api operetta.API) {
	for _, text := range api.TakeWarnings() {
		// The only errors are about control characters, and the host drops such texts.
		if value, err := utilnet.NewWarningHeader(miscellaneous, "-", text); err == nil {
			header.Add("Warning", value)
		}
	}
}
