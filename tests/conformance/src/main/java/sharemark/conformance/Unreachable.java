package sharemark.conformance;

/** Thrown where a test asks for what a broker in another process cannot give it. */
public final class Unreachable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Reason reason;

    public Unreachable(Reason reason, String what) {
        super(reason.words() + ": " + what);
        this.reason = reason;
    }

    public Reason reason() {
        return reason;
    }
}
