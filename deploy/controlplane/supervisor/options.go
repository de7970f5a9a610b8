// Arguments of `controlplane up` and `down`, and the folder of the components'
// programs. The only I/O here tests whether files exist.

package supervisor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The components by the names of their programs, in starting order.
const (
	etcd       = "etcd"
	apiserver  = "kube-apiserver"
	controller = "kube-controller-manager"
	scheduler  = "kube-scheduler"
	kwok       = "kwok"
)

// extras maps each word of --with to its program.
var extras = map[string]string{"controllers": controller, "scheduler": scheduler, "kwok": kwok}

type options struct {
	dir     string          // absolute
	with    map[string]bool // programs beside etcd and kube-apiserver
	detach  bool
	port    int    // 0: any free one
	assets  string // empty: findAssets decides
	audit   bool
	timeout time.Duration
	// authorization is the absolute path of an AuthorizationConfiguration; empty: RBAC alone
	authorization string
	// egress is the absolute path of an EgressSelectorConfiguration; empty: direct connections
	egress string
}

var errHelp = flag.ErrHelp

func parseOptions(args []string) (options, error) {
	parsed := options{with: map[string]bool{}}
	flags := newFlags("up", &parsed.dir)
	flags.BoolVar(&parsed.detach, "detach", false, "")
	flags.StringVar(&parsed.assets, "assets", "", "")
	flags.IntVar(&parsed.port, "port", 0, "")
	flags.BoolVar(&parsed.audit, "audit", false, "")
	flags.StringVar(&parsed.authorization, "authorization-config", "", "")
	flags.StringVar(&parsed.egress, "egress-selector-config", "", "")
	flags.DurationVar(&parsed.timeout, "timeout", 2*time.Minute, "")
	flags.Func("with", "", func(list string) error {
		for word := range strings.SplitSeq(list, ",") {
			word = strings.TrimSpace(word)
			if word == "" {
				continue
			}
			program, known := extras[word]
			if !known {
				return fmt.Errorf("%q is none of controllers, scheduler, kwok", word)
			}
			parsed.with[program] = true
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case parsed.dir == "":
		return options{}, errNoDir
	case parsed.port < 0 || parsed.port > 65535:
		return options{}, fmt.Errorf("--port %d is not a port", parsed.port)
	case parsed.timeout <= 0:
		return options{}, fmt.Errorf("--timeout %v is not a positive time", parsed.timeout)
	}
	// The components run in --dir.
	for _, path := range []*string{&parsed.dir, &parsed.authorization, &parsed.egress} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return options{}, err
		}
	}
	return parsed, nil
}

var errNoDir = errors.New("--dir is required")

// parseDown returns the folder of `controlplane down`.
func parseDown(args []string) (layout, error) {
	dir := ""
	flags := newFlags("down", &dir)
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if dir == "" {
		return "", errNoDir
	}
	dir, err := filepath.Abs(dir)
	return layout(dir), err
}

// newFlags returns the flags that every command has.
func newFlags(command string, dir *string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(dir, "dir", "", "")
	return flags
}

// programs lists the programs to start, in starting order.
func (o options) programs() []string {
	all := []string{etcd, apiserver, controller, scheduler, kwok}
	return slices.DeleteFunc(all, func(p string) bool { return p != etcd && p != apiserver && !o.with[p] })
}

// findAssets returns the absolute folder that holds every needed program: --assets,
// else $KUBEBUILDER_ASSETS, else the folder of this program, as it was called or as
// its symlink resolves. It returns an error that names the missing programs.
func findAssets(o options, program string) (string, error) {
	var candidates []string
	switch fromEnv := os.Getenv("KUBEBUILDER_ASSETS"); {
	case o.assets != "":
		candidates = []string{o.assets}
	case fromEnv != "":
		candidates = []string{fromEnv}
	default:
		candidates = ownFolders(program)
	}
	var problem error
	for _, folder := range candidates {
		folder, err := filepath.Abs(folder)
		if err != nil {
			return "", err
		}
		missing := missingPrograms(folder, o.programs())
		if len(missing) == 0 {
			return folder, nil
		}
		if problem == nil {
			problem = fmt.Errorf("%s has no %s (the programs come from --assets, else $KUBEBUILDER_ASSETS, "+
				"else the folder of this program; upstream's assets have etcd and kube-apiserver only)",
				folder, strings.Join(missing, ", "))
		}
	}
	return "", problem
}

// ownFolders lists the possible folders of this program. The folder of its symlink
// comes before the folder of its file.
func ownFolders(program string) []string {
	var folders []string
	if path, err := exec.LookPath(program); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	if path, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(path))
		if target, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
	}
	return folders
}

func missingPrograms(folder string, programs []string) []string {
	return slices.DeleteFunc(slices.Clone(programs), func(program string) bool {
		info, err := os.Stat(filepath.Join(folder, program))
		return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
	})
}
