package main

import (
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the index of a layout, and returns the reference with its digest. The credentials are those of `docker login`.
func push(folder, reference string) (string, error) {
	index, err := readLayout(folder)
	if err != nil {
		return "", err
	}
	target, err := name.ParseReference(reference)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(target, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return target.Context().Digest(digest.String()).String(), nil
}
