// What somebody else's page does with the API: it logs in with a link, lists and watches, over both protocols that
// browsers speak.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { Kind } from "/gen/fairlead/console/v1/catalog_service_pb.js";
import { ClusterService } from "/gen/fairlead/console/v1/cluster_service_pb.js";
import { LiveService } from "/gen/fairlead/console/v1/live_service_pb.js";
import { LoginService } from "/gen/fairlead/console/v1/login_service_pb.js";

const { hub, link } = JSON.parse(decodeURIComponent(location.hash.slice(1)));

const names = (clusters) => clusters.map((c) => c.metadata.name);

async function speak(createTransport, link) {
  const open = createTransport({ baseUrl: hub });
  const refused = await createClient(ClusterService, open).listClusters({}).then(() => "nobody is let in", (e) => e.rawMessage);
  const { token } = await createClient(LoginService, open).exchangeLoginLink({ link });
  const authorize = (next) => (req) => {
    req.header.set("Authorization", `Bearer ${token.token}`);
    return next(req);
  };
  const transport = createTransport({ baseUrl: hub, interceptors: [authorize] });
  const clusters = createClient(ClusterService, transport);
  const listed = names((await clusters.listClusters({})).clusters);

  // The stream tells what is there, and then what this page makes.
  const streamed = [];
  const made = `${listed.length}-made`;
  for await (const { event } of createClient(LiveService, transport).watchResources({ kinds: [Kind.CLUSTER] })) {
    if (event.case === "snapshotEnd") {
      await clusters.updateCluster({ cluster: { metadata: { name: `cluster-${made}` } }, allowMissing: true });
    }
    if (event.case === "changes") {
      streamed.push(...event.value.resources.map((r) => r.resource.value.metadata.name));
    }
    if (streamed.includes(`cluster-${made}`)) {
      break;
    }
  }
  return { refused, listed, streamed };
}

async function run() {
  const connect = await speak(createConnectTransport, link[0]);
  const grpcWeb = await speak(createGrpcWebTransport, link[1]);
  return { connect, grpcWeb };
}

window.said = run().catch((e) => ({ error: String(e) }));
