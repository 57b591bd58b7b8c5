// Jetty with the connector that it comes with (30 s without a request), and HTTP/2 beside it. Prints `listening PORT`.
import java.io.IOException;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

public class JettyServer {
    public static void main(String[] arguments) throws Exception {
        Server server = new Server();
        HttpConfiguration configuration = new HttpConfiguration();
        ServerConnector connector =
            new ServerConnector(server, new HttpConnectionFactory(configuration), new HTTP2CServerConnectionFactory(configuration));
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new AbstractHandler() {
            @Override
            public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) throws IOException {
                request.getInputStream().readAllBytes();
                response.getWriter().print("hello");
                base.setHandled(true);
            }
        });
        server.start();
        System.out.println("listening " + connector.getLocalPort());
        server.join();
    }
}
