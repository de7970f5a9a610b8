// Command oci-image assembles the container image of Operetta from built programs, without a daemon and without a base image.
//
//	oci-image build -output DIR -version V [flags] FOLDER...   write an OCI image layout, SBOMs and the provenance
//	oci-image root -output DIR                                 write the files of the image beside the programs
//	oci-image export DIR                                       print the root file system as a tar archive
//	oci-image push DIR REFERENCE                               push the layout's image to a registry
//
// Each FOLDER has operetta-host and operetta-compiler for one architecture.
//
// The image has a layer with CA certificates and the user's name, and a layer with the static programs. It has no shell and
// no package manager. The output depends on nothing but the arguments: the same programs give the same digest.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Usage errors end the program with this code.
const exitUsage = 2

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var err error
	switch args := os.Args[2:]; os.Args[1] {
	case "build":
		err = runBuild(args)
	case "root":
		err = runRoot(args)
	case "export":
		err = runExport(args, os.Stdout)
	case "push":
		err = runPush(args)
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oci-image:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: oci-image build|root|export|push; see the first lines of main.go")
	os.Exit(exitUsage)
}

// arguments parses flags and checks the number of arguments; least is the smallest number, most the largest or -1.
func arguments(flags *flag.FlagSet, args []string, least, most int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if n := flags.NArg(); n < least || (most >= 0 && n > most) {
		return fmt.Errorf("%s: wrong number of arguments: %d", flags.Name(), n)
	}
	return nil
}

func runBuild(args []string) error {
	var options buildOptions
	var created int64
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.StringVar(&options.output, "output", "", "the folder of the layout; SBOMs and provenance are written beside it")
	flags.StringVar(&options.about.name, "name", "operetta", "the image's name in the layout's index")
	flags.StringVar(&options.about.version, "version", "", "the version of the programs")
	flags.StringVar(&options.about.revision, "revision", "", "the Git commit that the programs were built from, with -dirty if the tree had changes")
	flags.Int64Var(&created, "created", 0, "the time of creation, in seconds since 1970")
	flags.StringVar(&options.source.repository, "source", "https://operetta.dev", "the URI of the sources' repository")
	flags.StringVar(&options.source.builder, "builder", "https://operetta.dev/local-build", "the URI of what runs the build")
	flags.StringVar(&options.source.profile, "profile", "release", "the profile that cargo built the programs with")
	flags.Func("material", "a file that determines the dependencies; may be repeated", func(path string) error {
		options.source.materials = append(options.source.materials, path)
		return nil
	})
	flags.BoolVar(&options.development, "development", false,
		"accept programs that need shared libraries or lack the list of their dependencies")
	if err := arguments(flags, args, 1, -1); err != nil {
		return err
	}
	if options.output == "" || options.about.version == "" {
		return fmt.Errorf("build: -output and -version are required")
	}
	options.about.created = time.Unix(created, 0).UTC()
	return build(options, flags.Args())
}

func runRoot(args []string) error {
	flags := flag.NewFlagSet("root", flag.ContinueOnError)
	output := flags.String("output", "", "the folder that becomes the root")
	if err := arguments(flags, args, 0, 0); err != nil {
		return err
	}
	if *output == "" {
		return fmt.Errorf("root: -output is required")
	}
	return writeRoot(*output)
}

func runExport(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	architecture := flags.String("architecture", hostArchitecture, "the image's architecture")
	if err := arguments(flags, args, 1, 1); err != nil {
		return err
	}
	return export(flags.Arg(0), *architecture, out)
}

func runPush(args []string) error {
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	if err := arguments(flags, args, 2, 2); err != nil {
		return err
	}
	digest, err := push(flags.Arg(0), flags.Arg(1))
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}
