{{- define "hub.selector" -}}
{app.kubernetes.io/name: fairlead, app.kubernetes.io/instance: {{ .root.Release.Name | quote }}, app.kubernetes.io/component: {{ .name }}}
{{- end }}
{{- define "hub.labels" -}}
{app.kubernetes.io/name: fairlead, app.kubernetes.io/instance: {{ .root.Release.Name | quote }}, app.kubernetes.io/component: {{ .name }}, app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}, app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}, app.kubernetes.io/part-of: fairlead}
{{- end }}
{{- define "hub.ports" -}}
{"console": 7400, "gitcache": 7401, "distributor": 7402, "tunnel": 7403}
{{- end }}
{{- /* Network policies count the port of the pod behind a Service: the pods of OpenShift's DNS listen at 5353. */}}
{{- define "hub.dnsPorts" -}}
- {port: 53, protocol: UDP}
- {port: 53, protocol: TCP}
- {port: 5353, protocol: UDP}
- {port: 5353, protocol: TCP}
{{- end }}
{{- /* The URL of a service within the cluster. */}}
{{- define "hub.internal" -}}
https://fairlead-{{ .name }}.{{ .root.Release.Namespace }}.svc:{{ get (include "hub.ports" . | fromJson) .name }}
{{- end }}
{{- define "hub.url" -}}
{{ get .root.Values.urls .name | default (include "hub.internal" .) }}
{{- end }}
{{- /* What a volume of a secret holds: name, secret, keys. */}}
{{- define "hub.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    items: [{{ range $i, $key := .keys }}{{ if $i }}, {{ end }}{key: {{ $key }}, path: {{ $key }}}{{ end }}]
{{- end }}
{{- define "hub.podSecurity" -}}
runAsNonRoot: true
{{- with int .Values.runAsUser }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- /* The spec of a pod that runs the command line once, logged in with the hub's secret: root, name, user, args, mounts, volumes. */}}
{{- define "hub.commandPod" -}}
{{- $root := .root -}}
{{- $image := printf "%s/cli%s" $root.Values.image.registry (ternary (printf "@%s" $root.Values.image.digests.cli) (printf ":%s" ($root.Values.image.tag | default $root.Chart.AppVersion)) (ne $root.Values.image.digests.cli "")) -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
securityContext:
  {{- include "hub.podSecurity" $root | nindent 2 }}
initContainers:
  - name: login
    image: {{ $image | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args:
      - login
      - {{ include "hub.internal" (dict "root" $root "name" "console") | quote }}
      - --hub-secret-file=/run/fairlead/hub/hub.secret
      - --user={{ .user }}
      - --program
      {{- if $root.Values.tls.privateCA }}
      - --ca-file=/run/fairlead/tls/ca.crt
      {{- end }}
    env: [{name: FAIRLEAD_CONFIG, value: /tmp/fairlead.yaml}]
    resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      - {name: hub, mountPath: /run/fairlead/hub, readOnly: true}
      {{- if $root.Values.tls.privateCA }}
      - {name: tls, mountPath: /run/fairlead/tls, readOnly: true}
      {{- end }}
containers:
  - name: {{ .name }}
    image: {{ $image | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{ toJson .args }}
    env: [{name: FAIRLEAD_CONFIG, value: /tmp/fairlead.yaml}]
    resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- range .mounts }}
      - {{ toJson . }}
      {{- end }}
volumes:
  - {name: tmp, emptyDir: {sizeLimit: 16Mi}}
  {{- include "hub.secretVolume" (dict "name" "hub" "secret" $root.Values.secrets.hubSecret "keys" (list "hub.secret")) | nindent 2 }}
  {{- if $root.Values.tls.privateCA }}
  {{- include "hub.secretVolume" (dict "name" "tls" "secret" $root.Values.secrets.tls "keys" (list "ca.crt")) | nindent 2 }}
  {{- end }}
  {{- range .volumes }}
  - {{ toJson . }}
  {{- end }}
{{- end }}

{{- /* An amount of Kubernetes, such as 1.5Gi, in bytes. */}}
{{- define "hub.bytes" }}
{{- $unit := regexFind "[A-Za-z]+$" . }}
{{- $of := dict "" 1.0 "m" 0.001 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 }}
{{- mulf (trimSuffix $unit . | float64) (get $of $unit) | int64 }}
{{- end }}

{{- /* A pod of the hub: root, name, args, volumes (data besides), grace, claim. */}}
{{- define "hub.pod" -}}
{{- $root := .root -}}
{{- $values := get $root.Values .name -}}
{{- $port := get (include "hub.ports" . | fromJson) .name -}}
metadata:
  labels: {{ include "hub.labels" . }}
  {{- with $root.Values.podAnnotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  serviceAccountName: fairlead-{{ .name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- /* Not a second constraint: the scheduler leaves out nodes that lack the label of any of them, and where nodes have no zones that is all of them. */}}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {{ include "hub.selector" . }}}}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {{ include "hub.selector" . }}}}}
  terminationGracePeriodSeconds: {{ .grace | default 45 }}
  securityContext:
    {{- include "hub.podSecurity" $root | nindent 4 }}
  containers:
    - name: {{ .name }}
      image: {{ $root.Values.image.registry }}/{{ .name }}{{ with get $root.Values.image.digests .name }}@{{ . }}{{ else }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args:
        - --listen=:{{ $port }}
        - --tls-cert=/run/fairlead/tls/tls.crt
        - --tls-key=/run/fairlead/tls/tls.key
        - --data-dir=/data
        - --hub-secret-file=/run/fairlead/hub/hub.secret
        - --drain-delay=5s
        {{- with $root.Values.trustedProxies }}
        - --trusted-proxies={{ join "," . }}
        {{- end }}
        {{- if ne $root.Values.unsignedMembers "refuse" }}
        - --unsigned-members={{ $root.Values.unsignedMembers }}
        {{- end }}
        {{- if $root.Values.secrets.metrics }}
        - --metrics-token-file=/run/fairlead/metrics/metrics.token
        {{- end }}
        {{- if ne .name "console" }}
        - --console-url={{ include "hub.internal" (dict "root" $root "name" "console") }}
        {{- if $root.Values.tls.privateCA }}
        - --hub-ca-file=/run/fairlead/tls/ca.crt
        {{- end }}
        {{- end }}
        - --log-level={{ $root.Values.logLevel }}
        - --log-format={{ $root.Values.logFormat }}
        {{- range concat .args $values.args }}
        - {{ . | quote }}
        {{- end }}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        {{- if and (ne .name "console") $root.Values.secrets.redis }}
        - {name: FAIRLEAD_REDIS_URL_FILE, value: /run/fairlead/redis/url}
        {{- end }}
        {{- if and (eq .name "console") $root.Values.secrets.database }}
        - {name: FAIRLEAD_DATABASE_URL_FILE, value: /run/fairlead/database/url}
        {{- end }}
        {{- range $values.env }}
        - {{ toJson . }}
        {{- end }}
      ports:
        - {name: https, containerPort: {{ $port }}}
      # Liveness asks nothing of anybody else: a restart does not bring Redis or the database back.
      {{- /* A console serves once its database answers and is up to date: with a long history that takes minutes, and a restart begins again. */}}
      startupProbe: {httpGet: {path: /healthz, port: https, scheme: HTTPS}, periodSeconds: 2, failureThreshold: {{ ternary 1800 90 (eq .name "console") }}}
      livenessProbe: {httpGet: {path: /healthz, port: https, scheme: HTTPS}, periodSeconds: 20, timeoutSeconds: 5, failureThreshold: 3}
      readinessProbe: {httpGet: {path: /readyz, port: https, scheme: HTTPS}, periodSeconds: 3, timeoutSeconds: 3, failureThreshold: 2}
      resources: {{ toJson $values.resources }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        - {name: tls, mountPath: /run/fairlead/tls, readOnly: true}
        - {name: hub, mountPath: /run/fairlead/hub, readOnly: true}
        {{- if eq .name "console" }}
        - {name: master-key, mountPath: /run/fairlead/console, readOnly: true}
        {{- if $root.Values.secrets.database }}
        - {name: database, mountPath: /run/fairlead/database, readOnly: true}
        {{- end }}
        {{- else if $root.Values.secrets.redis }}
        - {name: redis, mountPath: /run/fairlead/redis, readOnly: true}
        {{- end }}
        {{- if $root.Values.secrets.metrics }}
        - {name: metrics, mountPath: /run/fairlead/metrics, readOnly: true}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
    {{- with .data }}
    - {name: data, {{ . }}}
    {{- end }}
    {{- $keys := list "tls.crt" "tls.key" }}
    {{- if $root.Values.tls.privateCA }}{{ $keys = append $keys "ca.crt" }}{{ end }}
    {{- include "hub.secretVolume" (dict "name" "tls" "secret" $root.Values.secrets.tls "keys" $keys) | nindent 4 }}
    {{- include "hub.secretVolume" (dict "name" "hub" "secret" $root.Values.secrets.hubSecret "keys" (list "hub.secret")) | nindent 4 }}
    {{- if eq .name "console" }}
    {{- include "hub.secretVolume" (dict "name" "master-key" "secret" $root.Values.secrets.masterKey "keys" (list "master.key")) | nindent 4 }}
    {{- with $root.Values.secrets.database }}
    {{- include "hub.secretVolume" (dict "name" "database" "secret" . "keys" (list "url")) | nindent 4 }}
    {{- end }}
    {{- else if $root.Values.secrets.redis }}
    {{- include "hub.secretVolume" (dict "name" "redis" "secret" $root.Values.secrets.redis "keys" (list "url")) | nindent 4 }}
    {{- end }}
    {{- with $root.Values.secrets.metrics }}
    {{- include "hub.secretVolume" (dict "name" "metrics" "secret" . "keys" (list "metrics.token")) | nindent 4 }}
    {{- end }}
{{- end }}
{{- define "hub.claim" -}}
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  {{- with .storageClass }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources: {requests: {storage: {{ .size | quote }}}}
{{- end }}
