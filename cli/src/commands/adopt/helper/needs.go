package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Needs asks what the packages of an operator use.
type Needs struct {
	Packages []Package `json:"packages"`
	// Dialing are packages of others that can open connections.
	Dialing []string `json:"dialing"`
}

// Package has the files of one package.
type Package struct {
	Dir string `json:"dir"`
	// Files are those of the build, Ignored those that build constraints exclude.
	Files   []string `json:"files"`
	Ignored []string `json:"ignored"`
}

// Use is one place at which a need shows.
type Use struct {
	Need string `json:"need"`
	// What is used, as the code writes it: `http.Get`.
	What string `json:"what"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Path is the file that is opened, if the code names it.
	Path string `json:"path,omitempty"`
}

// functions are what needs something, by package.
var functions = map[string]map[string][]string{
	"net": {
		"network": {"Dial", "DialTimeout", "DialTCP", "DialIP", "Dialer"},
		"servers": {"Listen", "ListenTCP", "ListenConfig"},
		"udp":     {"DialUDP", "ListenUDP", "ListenPacket", "ListenMulticastUDP"},
	},
	"net/http": {
		"network": {"Get", "Head", "Post", "PostForm", "NewRequest", "NewRequestWithContext", "Client", "DefaultClient",
			"Transport", "DefaultTransport"},
		"servers": {"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Server"},
	},
	"net/rpc":                {"network": {"Dial", "DialHTTP"}},
	"net/smtp":               {"network": {"Dial", "SendMail"}},
	"crypto/tls":             {"network": {"Dial", "DialWithDialer", "Dialer"}, "servers": {"Listen"}},
	"database/sql":           {"network": {"Open", "OpenDB"}},
	"google.golang.org/grpc": {"network": {"Dial", "DialContext", "NewClient"}, "servers": {"NewServer"}},
	"k8s.io/client-go/tools/clientcmd": {
		"clusters": {"RESTConfigFromKubeConfig", "NewClientConfigFromBytes", "Load"},
	},
	"k8s.io/client-go/tools/remotecommand": {
		"exec": {"NewSPDYExecutor", "NewSPDYExecutorForProtocols", "NewSPDYExecutorForTransports", "NewWebSocketExecutor",
			"NewFallbackExecutor"},
	},
	"k8s.io/client-go/tools/portforward":            {"exec": {"New", "NewOnAddresses", "NewSPDYOverWebsocketDialer"}},
	"os/exec":                                       {"subprocesses": {"Command", "CommandContext", "LookPath"}},
	"syscall":                                       {"subprocesses": {"Exec", "ForkExec", "StartProcess"}, "mmap": {"Mmap"}},
	"golang.org/x/sys/unix":                         {"mmap": {"Mmap"}, "subprocesses": {"Exec"}},
	"sigs.k8s.io/controller-runtime":                {"webhooks": {"NewWebhookManagedBy"}},
	"sigs.k8s.io/controller-runtime/pkg/builder":    {"webhooks": {"WebhookManagedBy"}},
	"sigs.k8s.io/controller-runtime/pkg/webhook":    {"webhooks": {"Admission"}},
	"sigs.k8s.io/controller-runtime/pkg/conversion": {"conversion": {"Hub", "Convertible"}},
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission": {
		"webhooks": {"Webhook", "WithCustomDefaulter", "WithCustomValidator", "WithDefaulter", "WithValidator"},
	},
	"os": {
		"files": {"Open", "OpenFile", "ReadFile", "WriteFile", "Create", "ReadDir", "Mkdir", "MkdirAll", "MkdirTemp",
			"CreateTemp", "Remove", "RemoveAll", "Rename", "DirFS"},
		"subprocesses": {"StartProcess"},
	},
	"io/ioutil":     {"files": {"ReadFile", "WriteFile", "ReadDir", "TempDir", "TempFile"}},
	"path/filepath": {"files": {"Walk", "WalkDir", "Glob"}},
}

// methods need something whatever they are called on.
var methods = map[string]string{
	"SetupWebhookWithManager": "webhooks",
	"GetWebhookServer":        "webhooks",
}

// temporary are functions whose first argument is a folder in which they choose a name; an empty one
// is the folder for temporary files.
var temporary = map[string]bool{"MkdirTemp": true, "CreateTemp": true, "TempDir": true, "TempFile": true}

// imported are packages that need something by being imported.
var imported = map[string]string{"C": "cgo", "plugin": "plugins"}

// uses returns what the packages use, in the order of files and lines.
func (n *Needs) uses() ([]Use, error) {
	dialing := map[string]bool{}
	for _, path := range n.Dialing {
		dialing[path] = true
	}

	found := []Use{}
	for _, pkg := range n.Packages {
		files := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range pkg.Files {
			file, err := parser.ParseFile(files, filepath.Join(pkg.Dir, name), nil, 0)
			if err != nil {
				return nil, fmt.Errorf("failed to parse the operator's code: %w", err)
			}
			parsed = append(parsed, file)
		}

		search := search{files: files, constants: constants(parsed), dialing: dialing}
		for _, file := range parsed {
			search.file(file)
		}

		// A file that is left out without cgo is one that needs it.
		for _, name := range pkg.Ignored {
			file, err := parser.ParseFile(files, filepath.Join(pkg.Dir, name), nil, parser.ImportsOnly)
			if err == nil {
				search.imports(file, true)
			}
		}
		found = append(found, search.found...)
	}

	sort.SliceStable(found, func(a, b int) bool {
		if found[a].File != found[b].File {
			return found[a].File < found[b].File
		}
		return found[a].Line < found[b].Line
	})
	return found, nil
}

// constants are the texts of a package's constants, by name.
func constants(files []*ast.File) map[string]string {
	found := map[string]string{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			constants, ok := declaration.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				spec := spec.(*ast.ValueSpec)
				for at, name := range spec.Names {
					if at < len(spec.Values) {
						if text := literal(spec.Values[at]); text != "" {
							found[name.Name] = text
						}
					}
				}
			}
		}
	}
	return found
}

// literal is the text of a string in the code; empty if the expression is none.
func literal(expression ast.Expr) string {
	if basic, ok := expression.(*ast.BasicLit); ok && basic.Kind == token.STRING {
		if text, err := strconv.Unquote(basic.Value); err == nil {
			return text
		}
	}
	return ""
}

// search looks through one package.
type search struct {
	files     *token.FileSet
	constants map[string]string
	dialing   map[string]bool
	found     []Use
}

func (s *search) add(need, what string, at token.Pos, path string) {
	position := s.files.Position(at)
	s.found = append(s.found, Use{Need: need, What: what, File: position.Filename, Line: position.Line, Path: path})
}

// imports adds what the imports of a file need. Returns the names under which the file knows packages.
func (s *search) imports(file *ast.File, onlyC bool) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		imports, err := strconv.Unquote(spec.Path.Value)
		if err != nil || onlyC && imports != "C" {
			continue
		}
		if need, ok := imported[imports]; ok {
			s.add(need, "import "+spec.Path.Value, spec.Pos(), "")
		}
		if s.dialing[imports] {
			s.add("libraries", imports, spec.Pos(), "")
		}

		name := base(imports)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imports
	}
	return names
}

// base is the name of a package, which the last part of its path usually is.
func base(imports string) string {
	name := path.Base(imports)
	if digits, ok := strings.CutPrefix(name, "v"); ok && path.Dir(imports) != "." {
		if _, err := strconv.Atoi(digits); err == nil {
			name = path.Base(path.Dir(imports))
		}
	}
	return name
}

func (s *search) file(file *ast.File) {
	names := s.imports(file, false)

	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			if selector, ok := node.Fun.(*ast.SelectorExpr); ok {
				s.call(names, node, selector)
			}
		case *ast.SelectorExpr:
			need, imports := s.need(names, node)
			// A call of a function that opens files is looked at with its arguments.
			if need != "" && need != "files" {
				s.add(need, path.Base(imports)+"."+node.Sel.Name, node.Pos(), "")
			}
		case *ast.FuncDecl:
			// The version of a kind to and from which the others are converted.
			if node.Recv != nil && node.Name.Name == "Hub" && node.Type.Params.NumFields() == 0 && node.Type.Results.NumFields() == 0 {
				s.add("conversion", "Hub", node.Pos(), "")
			}
		}
		return true
	})
}

// need is what a selector such as `http.Get` needs, and the package in which it is; empty if nothing.
func (s *search) need(names map[string]string, selector *ast.SelectorExpr) (need, imports string) {
	pkg, ok := selector.X.(*ast.Ident)
	// A name that the file itself declares hides the package.
	if !ok || pkg.Obj != nil {
		return "", ""
	}

	imports = names[pkg.Name]
	for need, names := range functions[imports] {
		for _, name := range names {
			if name == selector.Sel.Name {
				return need, imports
			}
		}
	}
	return "", ""
}

func (s *search) call(names map[string]string, call *ast.CallExpr, selector *ast.SelectorExpr) {
	name := selector.Sel.Name
	if need, imports := s.need(names, selector); need == "files" {
		opened := ""
		if len(call.Args) > 0 {
			opened = s.text(names, call.Args[0])
			if literal, ok := call.Args[0].(*ast.BasicLit); ok && literal.Value == `""` && temporary[name] {
				opened = "/tmp"
			}
		}
		s.add(need, path.Base(imports)+"."+name, call.Pos(), opened)
		return
	}

	if need, ok := methods[name]; ok {
		s.add(need, name, selector.Sel.Pos(), "")
	}
}

// text is the text of an expression, if it is a string, a constant of the package, or such joined by
// `+` or filepath.Join.
func (s *search) text(names map[string]string, expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.BasicLit:
		return literal(expression)
	case *ast.ParenExpr:
		return s.text(names, expression.X)
	case *ast.Ident:
		return s.constants[expression.Name]
	case *ast.BinaryExpr:
		left, right := s.text(names, expression.X), s.text(names, expression.Y)
		if expression.Op == token.ADD && left != "" && right != "" {
			return left + right
		}
	case *ast.CallExpr:
		selector, ok := expression.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		pkg, ok := selector.X.(*ast.Ident)
		if !ok {
			return ""
		}
		switch {
		case names[pkg.Name] == "os" && selector.Sel.Name == "TempDir":
			return "/tmp"
		case names[pkg.Name] == "path/filepath" && selector.Sel.Name == "Join":
			var parts []string
			for _, argument := range expression.Args {
				part := s.text(names, argument)
				if part == "" {
					return ""
				}
				parts = append(parts, part)
			}
			return path.Join(parts...)
		}
	}
	return ""
}
