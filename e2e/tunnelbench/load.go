package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/apiserver-network-proxy/konnectivity-client/pkg/client"
)

// Job is one measurement. Jobs come as JSON, one a line, and each has one line of answer.
type Job struct {
	URL   string // of the backend, as this path shows it
	Token string // of the user
	Door  string // "", or "http-connect:" or "grpc:" and konnectivity's socket
	Kind  string // "get" or "bulk"

	Concurrency int
	Stalled     int // downloads that are begun and not read
	Millis      int // how long "get" goes on
	Bytes       int // of "bulk"
}

// Result is what a job saw.
type Result struct {
	P50Micros float64
	PerSecond float64
	MBs       float64
	Requests  int
	Error     string
}

func load(ctx context.Context, in io.Reader, out io.Writer) error {
	doors := map[string]*http.Client{}
	jobs := json.NewDecoder(in)
	answers := json.NewEncoder(out)
	for {
		var job Job
		if err := jobs.Decode(&job); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		// A client, and so its connections, for each path; stalled readers get one of their own.
		key := job.URL + job.Door
		if doors[key] == nil {
			doors[key] = newClient(job.Door)
		}
		result, err := job.do(ctx, doors[key])
		if err != nil {
			result.Error = err.Error()
		}
		if err := answers.Encode(result); err != nil {
			return err
		}
	}
}

func newClient(door string) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, ReadBufferSize: 64 << 10}
	if door != "" {
		mode, socket, _ := strings.Cut(door, ":")
		t.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
			if mode == "grpc" {
				return dialGRPC(ctx, socket, addr)
			}
			return dialConnect(ctx, socket, addr)
		}
	}
	return &http.Client{Transport: t}
}

// dialGRPC makes a tunnel for the one connection, as the API server's egress selector does.
func dialGRPC(ctx context.Context, socket, addr string) (net.Conn, error) {
	unix := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})
	life := context.WithoutCancel(ctx) // the connection outlives the request that dials it
	tunnel, err := client.CreateSingleUseGrpcTunnel(life, "passthrough:///konnectivity", unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return tunnel.DialContext(life, "tcp", addr)
}

func dialConnect(ctx context.Context, socket, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", addr); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // a CONNECT's answer has none
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return conn, nil // HTTP's client speaks first: nothing was read ahead
}

func (j Job) do(ctx context.Context, c *http.Client) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if j.Stalled > 0 {
		stop, err := j.stall(ctx)
		defer stop()
		if err != nil {
			return Result{}, err
		}
	}
	if j.Kind == "bulk" {
		return j.bulk(ctx, c)
	}
	return j.gets(ctx, c)
}

// stall begins downloads and reads none of them.
func (j Job) stall(ctx context.Context) (stop func(), err error) {
	c := newClient(j.Door)
	var bodies []io.Closer
	stop = func() {
		for _, b := range bodies {
			_ = b.Close()
		}
		c.CloseIdleConnections()
	}
	for range j.Stalled {
		resp, err := j.request(ctx, c, "/bulk?bytes="+strconv.Itoa(1<<30))
		if err != nil {
			return stop, err
		}
		bodies = append(bodies, resp.Body)
	}
	select { // until all buffers on the way are full
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
	return stop, nil
}

func (j Job) request(ctx context.Context, c *http.Client, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if j.Token != "" {
		req.Header.Set("Authorization", "Bearer "+j.Token)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, nil
}

func (j Job) gets(ctx context.Context, c *http.Client) (Result, error) {
	var mu sync.Mutex // guards all and failed
	var all []time.Duration
	var failed error
	begin := time.Now()
	end := begin.Add(time.Duration(j.Millis) * time.Millisecond)
	var wg sync.WaitGroup
	for range j.Concurrency {
		wg.Go(func() {
			var own []time.Duration
			var err error
			for now := time.Now(); now.Before(end) && err == nil; {
				err = j.get(ctx, c)
				then := time.Now()
				own = append(own, then.Sub(now))
				now = then
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, own...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	took := time.Since(begin)
	if failed != nil {
		return Result{}, failed
	}
	slices.Sort(all)
	return Result{P50Micros: float64(all[len(all)/2].Nanoseconds()) / 1e3, PerSecond: float64(len(all)) / took.Seconds(), Requests: len(all)}, nil
}

func (j Job) get(ctx context.Context, c *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := j.request(ctx, c, "/get")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n != 2048 {
		err = fmt.Errorf("answer of %d bytes", n)
	}
	return err
}

func (j Job) bulk(ctx context.Context, c *http.Client) (Result, error) {
	begin := time.Now()
	resp, err := j.request(ctx, c, "/bulk?bytes="+strconv.Itoa(j.Bytes))
	if err != nil {
		return Result{}, err
	}
	defer resp.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 128<<10))
	if err == nil && n != int64(j.Bytes) {
		err = fmt.Errorf("download of %d bytes", n)
	}
	return Result{MBs: float64(n) / 1e6 / time.Since(begin).Seconds(), Requests: 1}, err
}
