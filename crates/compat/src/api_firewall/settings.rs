//! Every setting of the API firewall in its proxy mode, its API mode and its GraphQL mode: its name in the environment, its key in `apifw.yaml`, its default.

/// What kind of thing a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Separated by `;` in the environment.
    List,
    /// `true`, `false`, and what Go takes for them.
    Bool,
    /// A whole number.
    Number,
    /// A duration as Go writes it: `1h10m`.
    Duration,
    /// The list of endpoints.
    Endpoints,
    /// Something that is not built here; what it is.
    NotBuilt(&'static str),
    /// Read and without effect here; why.
    Idle(&'static str),
}

/// What the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Proxy,
    Api,
    Graphql,
}

impl Mode {
    /// The word for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Mode::Proxy => "PROXY",
            Mode::Api => "API",
            Mode::Graphql => "GRAPHQL",
        }
    }
}

/// One setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// Without the prefix `APIFW_`; the flag is the same in lower case with dashes.
    pub(super) name: &'static str,
    /// The key in `apifw.yaml`; empty if it has none.
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    /// What holds without it.
    pub(super) default: &'static str,
}

impl Setting {
    /// The flag, without dashes before it.
    pub(super) fn flag(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }

    /// Whether this mode reads it.
    pub(super) fn is_of(&self, mode: Mode) -> bool {
        let begins = |prefix: &str| self.name.starts_with(prefix);
        self.is_of_all_modes()
            || match mode {
                Mode::Api => begins("API_MODE_") || self.name == "PASS_OPTIONS",
                Mode::Graphql => {
                    begins("GRAPHQL_")
                        || begins("DENYLIST_")
                        || (begins("SERVER_")
                            && !begins("SERVER_OAUTH_")
                            && self.name != "SERVER_MAX_RESPONSE_BODY_SIZE")
                }
                Mode::Proxy => !begins("API_MODE_") && !begins("GRAPHQL_"),
            }
    }

    /// Whether every mode reads it: the listener, its certificate and limits, the clients that may speak, logs; and what is built for none.
    fn is_of_all_modes(&self) -> bool {
        const NAMES: [&str; 11] = [
            "MODE",
            "URL",
            "READ_TIMEOUT",
            "WRITE_TIMEOUT",
            "READ_BUFFER_SIZE",
            "WRITE_BUFFER_SIZE",
            "MAX_REQUEST_BODY_SIZE",
            "DISABLE_KEEPALIVE",
            "MAX_CONNS_PER_IP",
            "MAX_REQUESTS_PER_CONN",
            "HEALTH_HOST",
        ];
        let begins = |prefix: &&str| self.name.starts_with(*prefix);
        NAMES.contains(&self.name)
            || ["TLS_", "ALLOW_IP_", "LOG_"].iter().any(begins)
            || matches!(self.kind, Kind::NotBuilt(_))
    }
}

const fn setting(name: &'static str, key: &'static str, kind: Kind, default: &'static str) -> Setting {
    Setting { name, key, kind, default }
}

const MODSECURITY: Kind = Kind::NotBuilt("ModSecurity rules");
const DUPLICATION: Kind =
    Kind::Idle("the original reads GRAPHQL_DISABLE_FIELD_DUPLICATION, whatever its documents say");
const PLAYGROUND: Kind = Kind::Idle("there is no playground");
const DNS: Kind = Kind::Idle("names are resolved by this system's configuration, again when they expire");
const METRICS: Kind = Kind::NotBuilt("this metrics listener; the native `admin` listener serves metrics");
const BUFFERS: Kind = Kind::Idle("writes are not bounded by a buffer here");

/// All of them.
pub(super) static SETTINGS: &[Setting] = &[
    setting("MODE", "Mode", Kind::Text, "PROXY"),
    setting("API_SPECS", "APISpecs", Kind::Text, ""),
    setting("API_SPECS_CUSTOM_HEADER_NAME", "APISpecsCustomHeader.Name", Kind::Text, ""),
    setting("API_SPECS_CUSTOM_HEADER_VALUE", "APISpecsCustomHeader.Value", Kind::Text, ""),
    setting("SPECIFICATION_UPDATE_PERIOD", "SpecificationUpdatePeriod", Kind::Duration, "0s"),
    setting("URL", "Server.APIHost", Kind::Text, "http://0.0.0.0:8282"),
    setting("SERVER_URL", "Backend.ProtectedAPI.URL", Kind::Text, "http://localhost:3000/v1/"),
    setting("REQUEST_VALIDATION", "RequestValidation", Kind::Text, ""),
    setting("RESPONSE_VALIDATION", "ResponseValidation", Kind::Text, ""),
    setting("CUSTOM_BLOCK_STATUS_CODE", "CustomBlockStatusCode", Kind::Number, "403"),
    setting("ADD_VALIDATION_STATUS_HEADER", "AddValidationStatusHeader", Kind::Bool, "false"),
    setting("PASS_OPTIONS", "PassOptionsRequests", Kind::Bool, "false"),
    setting("SHADOW_API_EXCLUDE_LIST", "ShadowAPI.ExcludeList", Kind::List, "404"),
    setting("SHADOW_API_UNKNOWN_PARAMETERS_DETECTION", "ShadowAPI.UnknownParametersDetection", Kind::Bool, "true"),
    setting("ENDPOINTS", "Endpoints", Kind::Endpoints, ""),
    setting("DENYLIST_TOKENS_FILE", "Denylist.Tokens.File", Kind::Text, ""),
    setting("DENYLIST_TOKENS_COOKIE_NAME", "Denylist.Tokens.CookieName", Kind::Text, ""),
    setting("DENYLIST_TOKENS_HEADER_NAME", "Denylist.Tokens.HeaderName", Kind::Text, ""),
    setting("DENYLIST_TOKENS_TRIM_BEARER_PREFIX", "Denylist.Tokens.TrimBearerPrefix", Kind::Bool, "true"),
    setting("ALLOW_IP_FILE", "AllowIP.File", Kind::Text, ""),
    setting("ALLOW_IP_HEADER_NAME", "AllowIP.HeaderName", Kind::Text, ""),
    setting("SERVER_OAUTH_VALIDATION_TYPE", "Backend.Oauth.ValidationType", Kind::Text, "JWT"),
    setting("SERVER_OAUTH_JWT_SIGNATURE_ALGORITHM", "Backend.Oauth.JWT.SignatureAlgorithm", Kind::Text, "RS256"),
    setting("SERVER_OAUTH_JWT_PUB_CERT_FILE", "Backend.Oauth.JWT.PubCertFile", Kind::Text, ""),
    setting("SERVER_OAUTH_JWT_SECRET_KEY", "Backend.Oauth.JWT.SecretKey", Kind::Text, ""),
    setting("SERVER_OAUTH_INTROSPECTION_ENDPOINT", "Backend.Oauth.Introspection.Endpoint", Kind::Text, ""),
    setting(
        "SERVER_OAUTH_INTROSPECTION_ENDPOINT_METHOD",
        "Backend.Oauth.Introspection.EndpointMethod",
        Kind::Text,
        "GET",
    ),
    setting("SERVER_OAUTH_INTROSPECTION_ENDPOINT_PARAMS", "Backend.Oauth.Introspection.EndpointParams", Kind::Text, ""),
    setting(
        "SERVER_OAUTH_INTROSPECTION_TOKEN_PARAM_NAME",
        "Backend.Oauth.Introspection.TokenParamName",
        Kind::Text,
        "",
    ),
    setting(
        "SERVER_OAUTH_INTROSPECTION_CLIENT_AUTH_BEARER_TOKEN",
        "Backend.Oauth.Introspection.ClientAuthBearerToken",
        Kind::Text,
        "",
    ),
    setting("SERVER_OAUTH_INTROSPECTION_CONTENT_TYPE", "Backend.Oauth.Introspection.ContentType", Kind::Text, ""),
    setting(
        "SERVER_OAUTH_INTROSPECTION_REFRESH_INTERVAL",
        "Backend.Oauth.Introspection.RefreshInterval",
        Kind::Duration,
        "10m",
    ),
    setting("TLS_CERTS_PATH", "TLS.CertsPath", Kind::Text, "certs"),
    setting("TLS_CERT_FILE", "TLS.CertFile", Kind::Text, "localhost.crt"),
    setting("TLS_CERT_KEY", "TLS.CertKey", Kind::Text, "localhost.key"),
    setting("SERVER_INSECURE_CONNECTION", "Backend.ProtectedAPI.InsecureConnection", Kind::Bool, "false"),
    setting("SERVER_ROOT_CA", "Backend.ProtectedAPI.RootCA", Kind::Text, ""),
    setting("SERVER_REQUEST_HOST_HEADER", "Backend.ProtectedAPI.RequestHostHeader", Kind::Text, ""),
    setting("SERVER_DELETE_ACCEPT_ENCODING", "Backend.ProtectedAPI.DeleteAcceptEncoding", Kind::Bool, "false"),
    setting("READ_TIMEOUT", "Server.ReadTimeout", Kind::Duration, "5s"),
    setting("WRITE_TIMEOUT", "Server.WriteTimeout", Kind::Duration, "5s"),
    setting("READ_BUFFER_SIZE", "Server.ReadBufferSize", Kind::Number, "8192"),
    setting("WRITE_BUFFER_SIZE", "Server.WriteBufferSize", BUFFERS, "8192"),
    setting("MAX_REQUEST_BODY_SIZE", "Server.MaxRequestBodySize", Kind::Number, "4194304"),
    setting("DISABLE_KEEPALIVE", "Server.DisableKeepalive", Kind::Bool, "false"),
    setting("MAX_CONNS_PER_IP", "Server.MaxConnsPerIP", Kind::Number, "0"),
    setting("MAX_REQUESTS_PER_CONN", "Server.MaxRequestsPerConn", Kind::Number, "0"),
    setting("SERVER_MAX_CONNS_PER_HOST", "Backend.ProtectedAPI.MaxConnsPerHost", Kind::Number, "512"),
    setting("SERVER_READ_TIMEOUT", "Backend.ProtectedAPI.ReadTimeout", Kind::Duration, "5s"),
    setting("SERVER_WRITE_TIMEOUT", "Backend.ProtectedAPI.WriteTimeout", Kind::Duration, "5s"),
    setting("SERVER_DIAL_TIMEOUT", "Backend.ProtectedAPI.DialTimeout", Kind::Duration, "200ms"),
    setting("SERVER_READ_BUFFER_SIZE", "Backend.ProtectedAPI.ReadBufferSize", Kind::Number, "8192"),
    setting("SERVER_WRITE_BUFFER_SIZE", "Backend.ProtectedAPI.WriteBufferSize", BUFFERS, "8192"),
    setting("SERVER_MAX_RESPONSE_BODY_SIZE", "Backend.ProtectedAPI.MaxResponseBodySize", Kind::Number, "0"),
    setting("SERVER_HEALTH_CHECK_INTERVAL", "Backend.ProtectedAPI.HealthCheckInterval", Kind::Duration, "30s"),
    setting("SERVER_MAX_IDLE_CONN_DURATION", "Backend.ProtectedAPI.MaxIdleConnDuration", Kind::Duration, "10s"),
    setting("HEALTH_HOST", "HealthHost", Kind::Text, "0.0.0.0:9667"),
    setting("LOG_LEVEL", "LogLevel", Kind::Text, "INFO"),
    setting("LOG_FORMAT", "LogFormat", Kind::Text, "TEXT"),
    setting("DNS_CACHE", "DNS.Cache", DNS, ""),
    setting("DNS_FETCH_TIMEOUT", "DNS.FetchTimeout", DNS, ""),
    setting("DNS_LOOKUP_TIMEOUT", "DNS.LookupTimeout", DNS, ""),
    setting("DNS_NAMESERVER_HOST", "DNS.Nameserver.Host", DNS, ""),
    setting("DNS_NAMESERVER_PORT", "DNS.Nameserver.Port", DNS, ""),
    setting("DNS_NAMESERVER_PROTO", "DNS.Nameserver.Proto", DNS, ""),
    setting("METRICS_ENABLED", "Metrics.Enabled", METRICS, ""),
    setting("METRICS_HOST", "Metrics.Host", METRICS, ""),
    setting("METRICS_ENDPOINT_NAME", "Metrics.EndpointName", METRICS, ""),
    setting("MODSEC_CONF_FILES", "ModSecurity.ConfFiles", MODSECURITY, ""),
    setting("MODSEC_RULES_DIR", "ModSecurity.RulesDir", MODSECURITY, ""),
    setting("MODSEC_REQUEST_VALIDATION", "ModSecurity.RequestValidation", MODSECURITY, ""),
    setting("MODSEC_RESPONSE_VALIDATION", "ModSecurity.ResponseValidation", MODSECURITY, ""),
    setting("API_MODE_DEBUG_PATH_DB", "", Kind::Text, ""),
    setting("API_MODE_DB_VERSION", "", Kind::Number, "0"),
    setting("API_MODE_SPECIFICATION_UPDATE_PERIOD", "", Kind::Duration, "1m"),
    setting("API_MODE_UNKNOWN_PARAMETERS_DETECTION", "", Kind::Bool, "true"),
    setting("API_MODE_MAX_ERRORS_IN_RESPONSE", "", Kind::Number, "0"),
    setting("GRAPHQL_SCHEMA", "", Kind::Text, ""),
    setting("GRAPHQL_REQUEST_VALIDATION", "", Kind::Text, ""),
    setting("GRAPHQL_MAX_QUERY_COMPLEXITY", "", Kind::Number, ""),
    setting("GRAPHQL_MAX_QUERY_DEPTH", "", Kind::Number, ""),
    setting("GRAPHQL_NODE_COUNT_LIMIT", "", Kind::Number, ""),
    setting("GRAPHQL_MAX_ALIASES_NUM", "", Kind::Number, ""),
    setting("GRAPHQL_BATCH_QUERY_LIMIT", "", Kind::Number, ""),
    setting("GRAPHQL_INTROSPECTION", "", Kind::Bool, ""),
    setting("GRAPHQL_DISABLE_FIELD_DUPLICATION", "", Kind::Bool, "false"),
    setting("GRAPHQL_FIELD_DUPLICATION", "", DUPLICATION, ""),
    setting("GRAPHQL_PLAYGROUND", "", Kind::Bool, "false"),
    setting("GRAPHQL_PLAYGROUND_PATH", "", PLAYGROUND, ""),
    setting("GRAPHQL_WS_CHECK_ORIGIN", "", Kind::Bool, "false"),
    setting("GRAPHQL_WS_ORIGIN", "", Kind::List, ""),
];
