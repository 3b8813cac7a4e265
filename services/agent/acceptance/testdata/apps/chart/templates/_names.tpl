{{- define "shop.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}-{{ .Chart.Name }}{{- end -}}
