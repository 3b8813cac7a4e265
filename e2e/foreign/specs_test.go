package foreign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.dev/e2e/process"
)

// specs sends the requests of two specs of Kubernetes' own suite that impersonate, straight and through the tunnel, and
// holds the answers as the specs do. The suite itself takes too long to compile.
func (w *world) specs(ctx context.Context, t *testing.T) {
	t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", w.Clusters[0].Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// one after the other: the objects have the same names
	for _, d := range []*door{{name: "straight", config: admin}, w.tunnel} {
		if err := d.subjectReview(ctx, w.quiet); err != nil {
			t.Errorf("SubjectReview should support SubjectReview API operations, %s: %v", d.name, err)
		}
		if err := d.classified(ctx); err != nil {
			t.Errorf("API priority and fairness should ensure that requests can be classified by adding FlowSchema and PriorityLevelConfiguration, %s: %v", d.name, err)
		}
	}
}

// subjectReview asks whether a service account may list, in both ways, and lists as that account.
func (d *door) subjectReview(ctx context.Context, namespace string) error {
	clients, err := kubernetes.NewForConfig(d.config)
	if err != nil {
		return err
	}
	account, err := clients.CoreV1().ServiceAccounts(namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	user := "system:serviceaccount:" + namespace + ":" + account.Name
	groups := []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + namespace}
	as := rest.CopyConfig(d.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, UID: string(account.UID), Groups: groups}
	asAccount, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Resource: "configmaps", Namespace: namespace, Version: "v1",
		},
		User: user, Groups: groups, UID: string(account.UID),
	}
	review, err := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, listed := asAccount.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if listed != nil && !apierrors.IsForbidden(listed) {
		return listed
	}
	spec.User = account.Name // as the spec has it
	local, err := clients.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx,
		&authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: spec},
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if may := listed == nil; review.Status.Allowed != may || local.Status.Allowed != may {
		return fmt.Errorf("the reviews say %v and %v, and listing as the account gives %w", review.Status.Allowed,
			local.Status.Allowed, listed)
	}
	return clients.CoreV1().ServiceAccounts(namespace).Delete(ctx, account.Name, metav1.DeleteOptions{})
}

// classified adds a flow of one user, and asks as that user and as another one.
func (d *door) classified(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(d.config)
	if err != nil {
		return err
	}
	const levelName, flowName = "e2e-testing-prioritylevel", "e2e-testing-flowschema"
	level, err := clients.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx,
		&flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: levelName},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: new(int32(1)),
					LimitResponse:            flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	flow, err := clients.FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: flowName},
		Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence:         1000,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: levelName},
			DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{
				Type: flowcontrolv1.FlowDistinguisherMethodByUserType,
			},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{
					{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "noxu"}},
				},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{
					{Verbs: []string{flowcontrolv1.VerbAll}, NonResourceURLs: []string{flowcontrolv1.NonResourceAll}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := process.Await(ctx, "the flow is in use",
		func(ctx context.Context) error { return inUse(ctx, clients, flowName, levelName) }); err != nil {
		return err
	}
	gotFlow, gotLevel, err := d.flowOf(ctx, "noxu")
	if err != nil || gotFlow != string(flow.UID) || gotLevel != string(level.UID) {
		return fmt.Errorf("noxu is in flow %q of level %q, not in %q of %q: %w", gotFlow, gotLevel, flow.UID,
			level.UID, err)
	}
	gotFlow, gotLevel, err = d.flowOf(ctx, "foo")
	if err != nil || gotFlow == "" || gotLevel == "" {
		return fmt.Errorf("foo is in flow %q of level %q: %w", gotFlow, gotLevel, err)
	}
	return errors.Join(clients.FlowcontrolV1().FlowSchemas().Delete(ctx, flowName, metav1.DeleteOptions{}),
		clients.FlowcontrolV1().PriorityLevelConfigurations().Delete(ctx, levelName, metav1.DeleteOptions{}))
}

// inUse tells whether the API server has taken in a flow and its priority level.
func inUse(ctx context.Context, clients *kubernetes.Clientset, flow, level string) error {
	got, err := clients.FlowcontrolV1().FlowSchemas().Get(ctx, flow, metav1.GetOptions{})
	if err != nil {
		return err
	}
	settled := slices.ContainsFunc(got.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool {
		return c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionFalse
	})
	metrics, err := clients.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return err
	}
	counted := regexp.MustCompile(`(?m)^apiserver_flowcontrol_nominal_limit_seats\{priority_level="` + level +
		`"\}`).Match(metrics)
	if !settled || !counted {
		return fmt.Errorf("conditions %v, in the metrics: %v", got.Status.Conditions, counted)
	}
	return nil
}

// flowOf is the flow and the priority level into which the API server puts a request as a user.
func (d *door) flowOf(ctx context.Context, user string) (flow, level string, err error) {
	config := rest.CopyConfig(d.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/version", nil)
	if err != nil {
		return "", "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", "", err
	}
	return resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID),
		resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID), resp.Body.Close()
}
