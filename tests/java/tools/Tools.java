import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs a console tool of Kafka once for each line of standard input, which has the arguments, in one process. The name
 * of the tool's class and the broker's address are arguments. A line "-- STATUS" follows what each run printed.
 */
public final class Tools {
  private static final class Ended extends RuntimeException {
    private final int status;

    private Ended(int status) {
      this.status = status;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Exit.setExitProcedure((status, message) -> {
      throw new Ended(status);
    });
    Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      int status = 0;
      try {
        tool.invoke(null, (Object) ("--bootstrap-server " + arguments[1] + " " + line).split(" "));
      } catch (InvocationTargetException failure) {
        if (!(failure.getCause() instanceof Ended)) {
          throw failure;
        }
        status = ((Ended) failure.getCause()).status;
      }
      System.out.println("-- " + status);
      System.out.flush();
    }
    // The tools leave threads behind.
    Runtime.getRuntime().halt(0);
  }
}
