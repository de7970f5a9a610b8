{{- /* The names of all objects are fixed: the admission policies and the host know them. A cluster has one host, and one more
for each trust class, of which cli/src/commands/install/class.rs says what it has for itself. */ -}}

{{- define "operetta.name" -}}
operetta{{ with .Values.class }}-{{ . }}{{ end }}
{{- end }}

{{- define "operetta.selectorLabels" -}}
app.kubernetes.io/name: {{ include "operetta.name" . }}
{{- end }}

{{- /* Of what all hosts share. */ -}}
{{- define "operetta.sharedLabels" -}}
app.kubernetes.io/name: operetta
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "operetta.labels" -}}
{{ include "operetta.sharedLabels" . }}
{{- with .Values.class }}
operetta.dev/class: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "operetta.config" -}}
{{- if hasKey .Values.manager.config "class" }}
{{- fail "manager.config.class is not enough for a trust class: set the value class instead" }}
{{- end -}}
{{- with .Values.class -}}
{{ toYaml (dict "class" .) }}
{{ end -}}
{{ toYaml .Values.manager.config }}
{{- end }}

{{- define "operetta.image" -}}
{{- $image := .Values.manager.image -}}
{{- if contains "@" $image.repository -}}
{{ $image.repository }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
