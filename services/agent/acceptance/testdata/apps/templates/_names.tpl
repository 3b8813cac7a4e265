{{- define "name" -}}{{ .Service.Name | trunc 40 }}-{{ .Cluster.Labels.region | default "nowhere" }}{{- end -}}
