package lab

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

// The lab's network: a bridge that has the lab's own address, and a link to each node. The lab routes pods' addresses to their
// nodes, also between nodes: a fault of a link or a route is made here.

func makeBridge() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = layout.Bridge
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add a bridge: %w", err)
	}
	address, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", layout.Gateway, layout.PrefixLength))
	if err != nil {
		return err
	}
	err = errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(bridge, address), netlink.LinkSetUp(bridge))
	for file, value := range map[string]string{"ip_forward": "1", "conf/all/send_redirects": "0", "conf/" + layout.Bridge + "/send_redirects": "0"} {
		err = errors.Join(err, os.WriteFile("/proc/sys/net/ipv4/"+file, []byte(value), 0))
	}
	return err
}

// linkName of the lab's end of a node's link.
func linkName(number int) string { return "to-" + layout.NodeName(number) }

// plug gives the network namespace of a process a link to the bridge, and routes the node's pods there.
func plug(number, pid int) error {
	bridge, err := netlink.LinkByName(layout.Bridge)
	if err != nil {
		return err
	}
	link := netlink.NewVeth(netlink.LinkAttrs{Name: linkName(number), MasterIndex: bridge.Attrs().Index, TxQLen: -1})
	link.PeerName, link.PeerNamespace = "eth0", netlink.NsPid(pid)
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add the link of a node: %w", err)
	}
	_, pods, err := net.ParseCIDR(layout.PodRange(number))
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(link), netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: layout.NodeAddress(number)}))
}

// unplug removes a node's link, if the end of its namespace has not done so.
func unplug(number int) error {
	link, err := netlink.LinkByName(linkName(number))
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.As(err, new(netlink.LinkNotFoundError)) {
		return fmt.Errorf("remove the link of a node: %w", err)
	}
	return nil
}

// routeServices leads Services' addresses to some nodes.
func routeServices(numbers []int) error {
	_, services, err := net.ParseCIDR(layout.Services)
	if err != nil {
		return err
	}
	route := &netlink.Route{Dst: services}
	if len(numbers) == 0 {
		_ = netlink.RouteDel(route) // there may be none
		return nil
	}
	bridge, err := netlink.LinkByName(layout.Bridge)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: bridge.Attrs().Index, Gw: layout.NodeAddress(number)})
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route the addresses of Services: %w", err)
	}
	return nil
}
