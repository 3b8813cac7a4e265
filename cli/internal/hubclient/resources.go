package hubclient

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/kind"
)

// Question is what is asked of a list of resources.
type Question struct {
	Filter, Order, Token string
	Size                 int32
}

// Resource returns the resource of a kind with a name.
func (h *Hub) Resource(ctx context.Context, k kind.Kind, name string) (kind.Message, error) {
	res, err := h.callKind(ctx, k, "Get", map[protoreflect.Name]any{"name": name})
	if err != nil {
		return nil, err
	}
	var found kind.Message
	res.Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		found, _ = v.Message().Interface().(kind.Message)
		return false // there is one field
	})
	if found == nil {
		return k.New(), nil // as the getter of a generated response would say it
	}
	return found, nil
}

// Resources returns a page of the resources of a kind, and the token of the next page.
func (h *Hub) Resources(ctx context.Context, k kind.Kind, q Question) (found []kind.Message, next string, err error) {
	res, err := h.callKind(ctx, k, "List", map[protoreflect.Name]any{"page_size": q.Size, "page_token": q.Token, "filter": q.Filter, "order_by": q.Order})
	if err != nil {
		return nil, "", err
	}
	res.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fd.IsList() {
			next = v.String() // all but the resources
			return true
		}
		for i := range v.List().Len() {
			if m, ok := v.List().Get(i).Message().Interface().(kind.Message); ok {
				found = append(found, m)
			}
		}
		return true
	})
	return found, next, nil
}

// Delete removes the resource of a kind with a name. A confirmation is what a call before asked for; empty: none.
func (h *Hub) Delete(ctx context.Context, k kind.Kind, name, confirmation string) error {
	fields := map[protoreflect.Name]any{"name": name}
	if confirmation != "" {
		fields["confirmation"] = confirmation
	}
	_, err := h.callKind(ctx, k, "Delete", fields)
	return err
}

// anyMessage is a request or response of a kind that is known by its description only.
type anyMessage struct{ proto.Message }

// callKind calls the service of a kind with these fields in the request.
func (h *Hub) callKind(
	ctx context.Context, k kind.Kind, verb string, fields map[protoreflect.Name]any,
) (protoreflect.Message, error) {
	method := k.Method(verb)
	in, err := newMessage(method.Input())
	if err != nil {
		return nil, err
	}
	for name, value := range fields {
		fd := method.Input().Fields().ByName(name)
		if fd == nil {
			return nil, fmt.Errorf("call %s: its request has no field %s", method.FullName(), name)
		}
		in.ProtoReflect().Set(fd, protoreflect.ValueOf(value))
	}
	opts := append(h.clientOptions(), connect.WithSchema(method), connect.WithResponseInitializer(func(_ connect.Spec, out any) error {
		m, err := newMessage(method.Output())
		if to, ok := out.(*anyMessage); ok {
			to.Message = m
		}
		return err
	}))
	url := fmt.Sprintf("%s/%s/%s", h.Context.URL, method.Parent().FullName(), method.Name())
	res, err := connect.NewClient[anyMessage, anyMessage](h.HTTP, url, opts...).CallUnary(ctx, connect.NewRequest(&anyMessage{in}))
	if err != nil {
		return nil, err
	}
	return res.Msg.ProtoReflect(), nil
}

func newMessage(of protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return nil, fmt.Errorf("find message %s: %w", of.FullName(), err)
	}
	return t.New().Interface(), nil
}

// clientOptions are those of all clients of the console.
func (h *Hub) clientOptions() []connect.ClientOption {
	return append(client.Options(), connect.WithInterceptors(newExplainer(h.Context)))
}
