// The files under --dir. Users rely on those that `controlplane help` names
// (kubeconfig, pids.json, logs/, audit.log); the others are internal.

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"

	_ "embed"

	"operetta.dev/deploy/controlplane/stages"
)

// layout is the absolute path of --dir.
type layout string

func (d layout) path(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

func (d layout) lock() string                { return d.path("lock") }
func (d layout) ports() string               { return d.path("ports.json") }
func (d layout) pids() string                { return d.path("pids.json") }
func (d layout) kubeconfig() string          { return d.path("kubeconfig") }
func (d layout) tokens() string              { return d.path("tokens.csv") }
func (d layout) ca() string                  { return d.path("ca.crt") }
func (d layout) serverCert() string          { return d.path("apiserver.crt") }
func (d layout) serverKey() string           { return d.path("apiserver.key") }
func (d layout) saKey() string               { return d.path("sa.key") }
func (d layout) auditPolicy() string         { return d.path("audit-policy.yaml") }
func (d layout) auditLog() string            { return d.path("audit.log") }
func (d layout) log(component string) string { return d.path("logs", component+".log") }

// componentKubeconfig returns the kubeconfig of a component other than the API server.
func (d layout) componentKubeconfig(component string) string {
	return d.path("components", component+".kubeconfig")
}

// stagesFile is relative to --dir, the components' working directory, because kwok
// splits the value of --config at commas.
const stagesFile = "stages.yaml"

func (d layout) create() error {
	for _, folder := range []string{"", "logs", "components"} {
		if err := os.MkdirAll(d.path(folder), 0o700); err != nil {
			return err
		}
	}
	return nil
}

//go:embed audit-policy.yaml
var auditPolicy []byte

// writeConfigs writes the configuration files of this version over older ones.
func writeConfigs(dir layout) error {
	config, err := stages.Config()
	if err != nil {
		return err
	}
	if err := writeFile(dir.path(stagesFile), config); err != nil {
		return err
	}
	return writeFile(dir.auditPolicy(), auditPolicy)
}

// writeFile replaces a file atomically: readers see the old content or the new.
// Only the owner can read it.
func writeFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // fails, as it should, once renamed
	if _, err := temporary.Write(content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
