import { clone, type Message } from '@bufbuild/protobuf'
import { Code, ConnectError, type Interceptor } from '@connectrpc/connect'

type Masked = Message & { readMask?: { paths: string[] } | undefined }

// A console that is older than the page does not know all fields that the page asks for, and refuses the read mask. It is asked for all
// fields then.
export function withoutUnknownFields(): Interceptor {
  const refused = new Set<string>()
  return (next) => async (req) => {
    if (req.stream) return next(req)
    const mask = (req.message as Masked).readMask
    if (!mask) return next(req)
    const key = `${req.method.name} ${mask.paths}`
    if (!refused.has(key)) {
      try {
        return await next(req)
      } catch (e) {
        const failed = ConnectError.from(e)
        if (failed.code !== Code.InvalidArgument || !failed.rawMessage.startsWith('read_mask')) throw e
        refused.add(key)
      }
    }
    const whole: Masked = clone(req.method.input, req.message)
    delete whole.readMask
    return next({ ...req, message: whole } as typeof req)
  }
}
