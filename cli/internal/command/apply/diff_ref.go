package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/artifact"
)

// packTimeout bounds the way of a folder from a gitcache, which may have to fetch the revision before.
const packTimeout = 3 * time.Minute

// packed is what the service would get from another revision.
type packed struct {
	commit string
	files  int
	size   int64
}

// downloadRevision writes into a file what a service would get if it followed another revision of its source, as a
// gitcache packs it.
func downloadRevision(ctx context.Context, h *hubclient.Hub, service, revision string, into *os.File) (packed, error) {
	return app.AskGitcaches(ctx, h, packTimeout, func(ctx context.Context, g hubclient.Gitcache) (p packed, err error) {
		if _, err := into.Seek(0, io.SeekStart); err != nil { // another gitcache may have begun
			return p, err
		}
		from, err := g.Sources.PackService(ctx, &gitcachev1.PackServiceRequest{Service: service, Revision: revision})
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		sum, digest := sha256.New(), ""
		for from.Receive() {
			if first := from.Msg().GetService(); first != nil {
				p.commit, p.files, digest = first.GetRevision().GetCommit(), int(first.GetArtifact().GetFiles()),
					first.GetArtifact().GetDigest()
			}
			if err := p.addPiece(from.Msg().GetData(), into, sum); err != nil {
				return p, err
			}
		}
		if err := from.Err(); err != nil {
			return p, err
		}
		if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != digest {
			return p, errors.New("the folder did not come whole: run the command again")
		}
		return p, nil
	})
}

// addPiece adds a piece.
func (p *packed) addPiece(piece []byte, into io.Writer, sum hash.Hash) error {
	if p.size += int64(len(piece)); p.size > artifact.PreviewBytes {
		return fmt.Errorf("the folder has more than %d MiB", artifact.PreviewBytes>>20)
	}
	_, _ = sum.Write(piece) // never fails
	_, err := into.Write(piece)
	return err
}
