// A small operator with a main of its own, for the tests of hosts that run processes. It knows
// nothing of the host: in a Pod it would do the same. It uses the standard library only, so that it
// builds in seconds.
//
// It copies each ConfigMap with the label copy=wanted to NAME-copy. A ConfigMap named crash makes it
// panic, one named leave makes it exit with 3. On SIGTERM it creates the ConfigMap goodbye.
//
// With -listen it serves /healthz, /readyz, /metrics and grpc.health.v1; a ConfigMap with the label
// copy=wanted named health decides what these say: live=no and ready=no. With -print it prints the
// files of a folder whenever one of them has changed. With -finalizer it puts that finalizer on what
// it copies, and deletes the copy before it removes the finalizer.
//
//	process-operator [-in-cluster] [-listen ADDRESS] [-print FOLDER] [-finalizer NAME]
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

type configMap struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
}

type metadata struct {
	Name              string   `json:"name,omitempty"`
	ResourceVersion   string   `json:"resourceVersion,omitempty"`
	DeletionTimestamp string   `json:"deletionTimestamp,omitempty"`
	Finalizers        []string `json:"finalizers,omitempty"`
}

type list struct {
	Metadata metadata    `json:"metadata"`
	Items    []configMap `json:"items"`
}

type event struct {
	Type   string    `json:"type"`
	Object configMap `json:"object"`
}

type client struct {
	server    string
	namespace string
	token     string
	finalizer string
	http      *http.Client
}

func main() {
	inCluster := flag.Bool("in-cluster", false, "use the files of the ServiceAccount, not KUBECONFIG")
	listen := flag.String("listen", "", "the address of the health and metrics server")
	folder := flag.String("print", "", "print the files of this folder when they change")
	finalizer := flag.String("finalizer", "", "put this finalizer on what is copied")
	flag.Parse()
	fmt.Println("greeting:", os.Getenv("GREETING"), "namespace:", os.Getenv("POD_NAMESPACE"))

	api, err := connect(*inCluster)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed to connect:", err)
		os.Exit(1)
	}
	api.finalizer = *finalizer
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if *listen != "" {
		go serve(*listen)
	}
	if *folder != "" {
		go printFiles(*folder)
	}

	for ctx.Err() == nil {
		if err := api.follow(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "watching again:", err)
			time.Sleep(500 * time.Millisecond)
		}
	}
	fmt.Println("asked to end")
	goodbye := configMap{APIVersion: "v1", Kind: "ConfigMap", Metadata: metadata{Name: "goodbye"}}
	if err := api.send(context.Background(), http.MethodPost, "", goodbye); err != nil {
		fmt.Fprintln(os.Stderr, "no goodbye:", err)
	}
}

func connect(inCluster bool) (*client, error) {
	if inCluster {
		return connectInCluster()
	}
	text, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	var config struct {
		Clusters []struct {
			Cluster struct{ Server string }
		}
		Contexts []struct {
			Context struct{ Namespace string }
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	if len(config.Clusters) == 0 || len(config.Contexts) == 0 {
		return nil, errors.New("the kubeconfig is empty")
	}
	return &client{
		server:    config.Clusters[0].Cluster.Server,
		namespace: config.Contexts[0].Context.Namespace,
		http:      http.DefaultClient,
	}, nil
}

// connectInCluster connects as client-go's rest.InClusterConfig does.
func connectInCluster() (*client, error) {
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile(account + "namespace")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt has no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	address := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return &client{
		server:    "https://" + address,
		namespace: string(namespace),
		token:     string(token),
		http:      &http.Client{Transport: transport},
	}, nil
}

// follow lists and watches until the watch ends.
func (c *client) follow(ctx context.Context) error {
	selected := url.Values{"labelSelector": {"copy=wanted"}}
	var all list
	if err := c.get(ctx, selected, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&all)
	}); err != nil {
		return err
	}
	for _, one := range all.Items {
		c.reconcile(ctx, one)
	}

	selected.Set("watch", "true")
	selected.Set("resourceVersion", all.Metadata.ResourceVersion)
	return c.get(ctx, selected, func(body io.Reader) error {
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return err
			}
			var change event
			if err := json.Unmarshal(line, &change); err != nil {
				return err
			}
			if change.Type == "ERROR" {
				return fmt.Errorf("%s", line)
			}
			if change.Type != "DELETED" {
				c.reconcile(ctx, change.Object)
			}
		}
	})
}

func (c *client) reconcile(ctx context.Context, of configMap) {
	switch of.Metadata.Name {
	case "crash":
		panic("a bug in the operator")
	case "health":
		isSick.Store(of.Data["live"] == "no")
		isUnready.Store(of.Data["ready"] == "no")
		return
	case "leave":
		fmt.Fprintln(os.Stderr, "leaving")
		os.Exit(3)
	}

	if c.finalizer != "" {
		isLeft, err := c.finalize(ctx, of)
		if err != nil {
			fmt.Fprintln(os.Stderr, "failed to finalize", of.Metadata.Name+":", err)
		}
		if err != nil || isLeft {
			return
		}
	}

	made := configMap{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Metadata:   metadata{Name: of.Metadata.Name + "-copy"},
		Data:       of.Data,
	}
	err := c.send(ctx, http.MethodPost, "", made)
	if err == errExists {
		err = c.send(ctx, http.MethodPut, "/"+made.Metadata.Name, made)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed to copy", of.Metadata.Name+":", err)
		return
	}
	copies.Add(1)
}

// finalize sets the finalizer, or deletes the copy of a deleted ConfigMap and removes it. It reports
// whether the ConfigMap is deleted.
func (c *client) finalize(ctx context.Context, of configMap) (bool, error) {
	has := slices.Contains(of.Metadata.Finalizers, c.finalizer)
	set := func(finalizers []string) error {
		patch := map[string]any{"metadata": map[string]any{"finalizers": finalizers}}
		return c.send(ctx, http.MethodPatch, "/"+of.Metadata.Name, patch)
	}
	switch {
	case of.Metadata.DeletionTimestamp == "" && !has:
		return false, set(append(of.Metadata.Finalizers, c.finalizer))
	case of.Metadata.DeletionTimestamp == "":
		return false, nil
	case !has:
		return true, nil
	}
	if err := c.send(ctx, http.MethodDelete, "/"+of.Metadata.Name+"-copy", struct{}{}); err != nil {
		return true, err
	}
	isOurs := func(name string) bool { return name == c.finalizer }
	return true, set(slices.DeleteFunc(of.Metadata.Finalizers, isOurs))
}

var isSick, isUnready atomic.Bool

func serve(address string) {
	answer := func(isBad *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if isBad.Load() {
				http.Error(w, "told to fail", http.StatusInternalServerError)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", answer(&isSick))
	mux.HandleFunc("/readyz", answer(&isUnready))
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP copies_total Copies.\n# TYPE copies_total counter\n")
		fmt.Fprintf(w, "copies_total{namespace=\"kube-system\"} %d\n", copies.Load())
		fmt.Fprint(w, "# TYPE process_open_fds gauge\nprocess_open_fds 4242\n")
	})
	// What grpc-go does for a health service, without its module.
	mux.HandleFunc("/grpc.health.v1.Health/Check", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		status := byte(1)
		if isSick.Load() {
			status = 2
		}
		w.Write([]byte{0, 0, 0, 0, 2, 8, status})
		w.Header().Set("Grpc-Status", "0")
	})
	server := &http.Server{Addr: address, Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	fmt.Fprintln(os.Stderr, "serving:", server.ListenAndServe())
}

var copies atomic.Int64

// printFiles prints the files of a folder in one line, at the start and after each change.
func printFiles(folder string) {
	var last string
	for ; ; time.Sleep(200 * time.Millisecond) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			fmt.Fprintln(os.Stderr, "no folder:", err)
			return
		}
		var line strings.Builder
		for _, entry := range entries {
			text, err := os.ReadFile(path.Join(folder, entry.Name()))
			if err == nil {
				fmt.Fprintf(&line, " %s=%s", entry.Name(), text)
			}
		}
		if line.String() != last {
			last = line.String()
			fmt.Println("files:" + last)
		}
	}
}

var errExists = errors.New("it exists")

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	address := c.server + "/api/v1/namespaces/" + c.namespace + "/configmaps" + path
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(request)
}

func (c *client) get(ctx context.Context, query url.Values, read func(io.Reader) error) error {
	response, err := c.request(ctx, http.MethodGet, "?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refused(response)
	}
	return read(response.Body)
}

func (c *client) send(ctx context.Context, method, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	response, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusConflict && method == http.MethodPost:
		return errExists
	case response.StatusCode == http.StatusNotFound && method != http.MethodPost:
		// It is gone.
		return nil
	case response.StatusCode >= 300:
		return refused(response)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func refused(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	return fmt.Errorf("%s: %s", response.Status, text)
}
