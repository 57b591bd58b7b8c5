// Tomcat with the connector that it comes with (100 requests or 20 s on a connection), and HTTP/2 beside it. Usage: java TomcatServer.java FOLDER; prints
// `listening PORT`.
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http2.Http2Protocol;

public class TomcatServer {
    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[0]);
        tomcat.setPort(0);
        tomcat.getConnector().addUpgradeProtocol(new Http2Protocol());
        var context = tomcat.addContext("", arguments[0]);
        Tomcat.addServlet(context, "hello", new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
                request.getInputStream().readAllBytes();
                response.getWriter().print("hello");
            }
        });
        context.addServletMappingDecoded("/*", "hello");
        tomcat.start();
        System.out.println("listening " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }
}
