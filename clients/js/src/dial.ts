/* dial.ts - a socket of Node.js to weir, by TLS or not. */
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectSecurely, type ConnectionOptions as TlsOptions } from 'node:tls'

/** Where weir listens. */
export interface Place {
  path?: string
  host?: string
  port?: number
}

/** A host of a URL, in which an address of IPv6 has brackets. */
export const hostOf = (hostname: string) => hostname.replace(/^\[|\]$/g, '')

/** It keeps no process alive until it is asked to. */
export function dial(place: Place, secure: boolean, opened: () => void, tls?: TlsOptions): Socket {
  const { host = '' } = place
  const socket = secure
    ? connectSecurely({ ...place, servername: isIP(host) ? undefined : host, ...tls } as any)
    : connect(place as any)
  socket.setNoDelay(true)
  socket.setKeepAlive(true, 30_000)
  socket.unref()
  socket.once(secure ? 'secureConnect' : 'connect', opened)
  return socket
}
