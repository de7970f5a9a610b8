{{- /* The names of all objects are fixed: the admission policies and the host know them, and a cluster has one host. */ -}}

{{- define "operetta.selectorLabels" -}}
app.kubernetes.io/name: operetta
{{- end }}

{{- define "operetta.labels" -}}
{{ include "operetta.selectorLabels" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "operetta.image" -}}
{{- $image := .Values.manager.image -}}
{{- if contains "@" $image.repository -}}
{{ $image.repository }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
