//! Files that packages bring and configurations include: what they say is known where they are not here.

use std::path::Path;

/// What a package has under a name, and which package that is.
pub(crate) fn text(path: &Path) -> Option<(&'static str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    match (folder, name) {
        // Types of files, and parameters for other protocols: nothing of it is carried.
        (_, "mime.types" | "fastcgi_params" | "fastcgi.conf" | "uwsgi_params" | "scgi_params")
        | ("snippets", "fastcgi-php.conf") => Some(("nginx", "")),
        (_, "proxy_params") => Some((
            "nginx of Debian",
            "proxy_set_header Host $http_host;\n\
             proxy_set_header X-Real-IP $remote_addr;\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
             proxy_set_header X-Forwarded-Proto $scheme;\n",
        )),
        ("snippets", "snakeoil.conf") => Some((
            "nginx of Debian",
            "ssl_certificate /etc/ssl/certs/ssl-cert-snakeoil.pem;\n\
             ssl_certificate_key /etc/ssl/private/ssl-cert-snakeoil.key;\n",
        )),
        ("letsencrypt", "options-ssl-nginx.conf") => Some((
            "certbot",
            "ssl_session_tickets off;\nssl_protocols TLSv1.2 TLSv1.3;\nssl_prefer_server_ciphers off;\n",
        )),
        _ => None,
    }
}
