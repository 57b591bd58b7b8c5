{{- define "portunus.name" -}}
{{- if contains "portunus" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-portunus" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "portunus.selector" -}}
app.kubernetes.io/name: portunus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "portunus.labels" -}}
{{ include "portunus.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "portunus.adminSecret" -}}
{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "portunus.name" .)) }}
{{- end }}
