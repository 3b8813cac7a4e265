// Package dns answers for the names of a cluster's Services as the specification of Kubernetes' DNS wants it, in place of CoreDNS,
// whose build takes longer than all else of a lab: addresses of Services and of the endpoints of headless ones, also by host name,
// SRV and CNAME. The DNS server lives beside the nodes, so that a node's power cut does not take it away. There are no names of
// addresses (PTR), and no names outside of the cluster, for a lab reaches none: both are unknown names.
package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

const (
	service    = "kube-dns"
	ttlSeconds = 5 // as CoreDNS
	plainSize  = 512
)

// Announce gives the server the Service that pods are told to ask. Its endpoint is the lab.
func Announce(ctx context.Context, api kubernetes.Interface) error {
	var ports []corev1.ServicePort
	var endpoints []discoveryv1.EndpointPort
	for name, protocol := range map[string]corev1.Protocol{"dns": corev1.ProtocolUDP, "dns-tcp": corev1.ProtocolTCP} {
		port := int32(layout.DNSPort)
		ports = append(ports, corev1.ServicePort{Name: name, Protocol: protocol, Port: port})
		endpoints = append(endpoints, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &port})
	}
	services, slices := api.CoreV1().Services(metav1.NamespaceSystem), api.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem)
	// A second one is refused for its address, not for its name.
	if _, err := services.Get(ctx, service, metav1.GetOptions{}); err == nil {
		return nil
	}
	_, err := slices.Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: endpoints, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{layout.Gateway}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the endpoint of DNS: %w", err)
	}
	_, err = services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service}, Spec: corev1.ServiceSpec{ClusterIP: layout.DNSService, Ports: ports},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the Service of DNS: %w", err)
	}
	return nil
}

// Server answers by UDP and TCP.
type Server struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	synced   []cache.InformerSynced
	packets  net.PacketConn
	streams  net.Listener
}

// New listens on an address and watches by factory, which the caller starts.
func New(factory informers.SharedInformerFactory, address string) (*Server, error) {
	at := net.JoinHostPort(address, fmt.Sprint(layout.DNSPort))
	packets, err := net.ListenPacket("udp", at) //nolint:noctx // at once
	if err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	streams, err := net.Listen("tcp", at) //nolint:noctx // at once
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for DNS: %w", err), packets.Close())
	}
	services, slices := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	return &Server{
		services: services.Lister(), slices: slices.Lister(), packets: packets, streams: streams,
		synced: []cache.InformerSynced{services.Informer().HasSynced, slices.Informer().HasSynced},
	}, nil
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(s.packets.Close(), s.streams.Close()) })
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(s.servePackets)
	running.Go(func() { s.serveStreams(ctx) })
}

func (s *Server) servePackets() {
	packet := make([]byte, 1<<16)
	for {
		n, from, err := s.packets.ReadFrom(packet)
		if err != nil {
			return // closed
		}
		if answer := s.answer(packet[:n], false); answer != nil {
			_, _ = s.packets.WriteTo(answer, from) // clients ask again
		}
	}
}

func (s *Server) serveStreams(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := s.streams.Accept()
		if err != nil {
			return // closed
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		running.Go(func() {
			defer stop()
			defer conn.Close()
			s.serveStream(conn)
		})
	}
}

func (s *Server) serveStream(conn net.Conn) {
	const idle = 10 * time.Second
	for {
		_ = conn.SetDeadline(time.Now().Add(idle)) // fails only on a closed connection
		var length uint16
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		question := make([]byte, length)
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer := s.answer(question, true)
		if answer == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil { //nolint:gosec // it was checked
			return
		}
	}
}

// answer to one message, or nil for what is none.
func (s *Server) answer(packet []byte, stream bool) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(packet)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	size := plainSize
	if stream {
		size = 1<<16 - 1
	} else if parser.SkipAllQuestions() == nil && parser.SkipAllAnswers() == nil && parser.SkipAllAuthorities() == nil {
		if more, err := parser.AdditionalHeader(); err == nil && more.Type == dnsmessage.TypeOPT {
			size = max(size, int(more.Class)) // EDNS: what the client can take
		}
	}
	found, known := s.find(question)
	out := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, OpCode: header.OpCode, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question}, Answers: found,
	}
	if !known {
		out.RCode = dnsmessage.RCodeNameError
	}
	if len(found) == 0 {
		out.Authorities = []dnsmessage.Resource{authority()}
	}
	packed, err := out.Pack()
	if err == nil && len(packed) > size {
		out.Answers, out.Truncated = nil, true // the client asks again by TCP
		packed, err = out.Pack()
	}
	if err != nil {
		return nil
	}
	return packed
}

// authority says for how long a client may remember that there is nothing.
func authority() dnsmessage.Resource {
	zone := dnsmessage.MustNewName(layout.Domain + ".")
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: zone, Class: dnsmessage.ClassINET, TTL: ttlSeconds},
		Body: &dnsmessage.SOAResource{NS: dnsmessage.MustNewName("ns.dns." + layout.Domain + "."),
			MBox: dnsmessage.MustNewName("hostmaster." + layout.Domain + "."), Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, MinTTL: ttlSeconds},
	}
}

// find returns the records of a name; known is false for a name that has none of any type.
func (s *Server) find(q dnsmessage.Question) (found []dnsmessage.Resource, known bool) {
	name, inside := strings.CutSuffix(strings.ToLower(q.Name.String()), ".svc."+layout.Domain+".")
	if !inside {
		return nil, false
	}
	parts := strings.Split(name, ".")
	if len(parts) < 2 {
		return nil, false
	}
	before := parts[:len(parts)-2]
	svc, err := s.services.Services(parts[len(parts)-1]).Get(parts[len(parts)-2])
	if err != nil {
		return nil, false
	}
	answer := func(body dnsmessage.ResourceBody) {
		found = append(found, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttlSeconds}, Body: body})
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		if target, err := dnsmessage.NewName(strings.TrimSuffix(svc.Spec.ExternalName, ".") + "."); err == nil && len(before) == 0 {
			answer(&dnsmessage.CNAMEResource{CNAME: target})
		}
		return found, len(found) > 0
	}
	if len(before) == 2 && strings.HasPrefix(before[0], "_") {
		for _, r := range s.ports(svc, before[0][1:], strings.TrimPrefix(before[1], "_")) {
			known = true
			if q.Type == dnsmessage.TypeSRV {
				answer(r)
			}
		}
		return found, known
	}
	addresses := s.addresses(svc, before)
	for _, address := range addresses {
		if q.Type == dnsmessage.TypeA && address.Is4() {
			answer(&dnsmessage.AResource{A: address.As4()})
		}
	}
	return found, len(addresses) > 0
}

// endpoint is one that a headless Service shows: ready, or all with publishNotReadyAddresses, which their slices say.
type endpoint struct {
	host    string // as it is named below the Service
	address netip.Addr
	ports   []discoveryv1.EndpointPort
}

func (s *Server) endpoints(svc *corev1.Service) []endpoint {
	slices, err := s.slices.EndpointSlices(svc.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: svc.Name}))
	if err != nil {
		return nil // never: it lists memory
	}
	var all []endpoint
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					continue
				}
				host := strings.NewReplacer(".", "-", ":", "-").Replace(text)
				if e.Hostname != nil && *e.Hostname != "" {
					host = *e.Hostname
				}
				all = append(all, endpoint{host, address, slice.Ports})
			}
		}
	}
	return all
}

// addresses of a Service, or of its endpoints that have a host name.
func (s *Server) addresses(svc *corev1.Service, host []string) []netip.Addr {
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		address, err := netip.ParseAddr(svc.Spec.ClusterIP)
		if err != nil || len(host) > 0 {
			return nil
		}
		return []netip.Addr{address}
	}
	var all []netip.Addr
	for _, e := range s.endpoints(svc) {
		if len(host) == 0 || len(host) == 1 && host[0] == e.host {
			all = append(all, e.address)
		}
	}
	return all
}

// ports are the SRV records of a named port.
func (s *Server) ports(svc *corev1.Service, port, protocol string) []*dnsmessage.SRVResource {
	own := svc.Name + "." + svc.Namespace + ".svc." + layout.Domain + "."
	var all []*dnsmessage.SRVResource
	add := func(number int32, target string) {
		if name, err := dnsmessage.NewName(target); err == nil {
			all = append(all, &dnsmessage.SRVResource{Weight: 1, Port: uint16(number), Target: name}) //nolint:gosec // a port
		}
	}
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		for _, p := range svc.Spec.Ports {
			if p.Name == port && strings.EqualFold(string(p.Protocol), protocol) {
				add(p.Port, own)
			}
		}
		return all
	}
	for _, e := range s.endpoints(svc) {
		for _, p := range e.ports {
			if p.Name != nil && *p.Name == port && p.Protocol != nil && strings.EqualFold(string(*p.Protocol), protocol) && p.Port != nil {
				add(*p.Port, e.host+"."+own)
			}
		}
	}
	return all
}
