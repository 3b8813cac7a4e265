{{- define "selector" -}}
app.kubernetes.io/name: fairlead, app.kubernetes.io/component: agent
{{- end }}
{{- define "labelList" -}}
{{ include "selector" . }}, app.kubernetes.io/instance: {{ .Release.Name | toJson }}, app.kubernetes.io/version: {{ .Chart.AppVersion | toJson }}, app.kubernetes.io/managed-by: {{ .Release.Service | toJson }}, app.kubernetes.io/part-of: fairlead
{{- end }}
{{- define "labels" -}}
{ {{- include "labelList" . }}}
{{- end }}
{{- define "image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
